# SPDX-License-Identifier: GPL-2.0-or-later
"""The modules of ohca-ufm."""
