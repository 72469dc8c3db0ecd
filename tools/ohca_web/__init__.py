# SPDX-License-Identifier: GPL-2.0-or-later
"""What the HTTP servers beside a fabric share: connections, options, the control socket."""
