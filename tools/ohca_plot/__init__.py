# SPDX-License-Identifier: GPL-2.0-or-later
"""What draws figures: of traffic, and of benchmarks."""
