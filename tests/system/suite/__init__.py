# SPDX-License-Identifier: GPL-2.0-or-later
"""The system tests; a module for each group or two."""
