# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab launcher: labs of virtual machines on one InfiniBand fabric."""
