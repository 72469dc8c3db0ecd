# SPDX-License-Identifier: GPL-2.0-or-later
# The devices of a lab.
CONFIG_ARM_VIRT=y
CONFIG_PCI_DEVICES=y
CONFIG_OHCA=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_VIRTIO_9P=y
# Each of several adapters has a root port.
CONFIG_PCIE_PORT=y
