# SPDX-License-Identifier: GPL-2.0-or-later
"""Sphinx configuration; `make docs` builds the pages into build/docs."""
project = "OpenHCA"
author = "the OpenHCA developers"
extensions = ["sphinx.ext.graphviz"]
graphviz_output_format = "svg"
# benchmarks: what a page includes
exclude_patterns = ["man", "benchmarks"]
html_theme = "alabaster"
html_theme_options = {"description": "An InfiniBand cluster in virtual machines"}
nitpicky = True
