# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts that the HTTP servers for a fabric share: connections, options, the control socket."""
