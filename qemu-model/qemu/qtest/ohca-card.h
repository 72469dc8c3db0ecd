/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helpers of the qtests: a machine with a card, a fabric, driver functions. */
#ifndef OHCA_CARD_H
#define OHCA_CARD_H

#include "libqos/libqos-pc.h"
#include "libqos/pci.h"
#include "hw/rdma/core/firmware-if/ohca_hw.h"

#define LOG_AQ      4
#define SLOTS       (1u << LOG_AQ)
#define GUID        0x0002c90300001000ull

/* PortInfo.PortPhysicalState */
#define PHYS_POLLING    2
#define PHYS_LINK_UP    5

/* Registers of intel-iommu */
#define VTD_BASE    0xfed90000ull
#define VTD_GCMD    0x18
#define VTD_GSTS    0x1c
#define VTD_RTADDR  0x20
#define VTD_CCMD    0x28
#define VTD_IOTLB   0xf8
#define VTD_TE      (1u << 31)
#define VTD_SRTP    (1u << 30)
#define VTD_IVT     (1ull << 63)
#define VTD_GLOBAL  (1ull << 60)
#define VTD_ICC     (1ull << 63)
#define VTD_ALL     (1ull << 61)

/* Arguments of a machine with intel-iommu; properties of a card behind it. */
#define VTD_MACHINE " -machine q35 -device intel-iommu,caching-mode=on"
#define VTD_CARD    ",addr=4"

/**
 * struct Fabric - a process of ohca-fabric, the program $OHCA_FABRIC
 * @pid: process ID; 0: there is none
 * @dir: directory of its socket
 * @path: its socket
 * @disk: it accepts memory on a disk
 */
typedef struct Fabric {
    pid_t pid;
    char *dir;
    char *path;
    bool disk;
} Fabric;

/**
 * struct Card - a card, and the memory of its driver
 * @qs: the machine
 * @fabric: the fabric of the card
 * @dev: its PCI function
 * @ctrl: BAR of registers
 * @uar: BAR of doorbells
 * @aq: guest physical address of the admin queue
 * @acq: guest physical address of the admin completion queue
 * @mbox: guest physical address of a mailbox
 * @pi: commands posted since the handshake
 */
typedef struct Card {
    QOSState *qs;
    Fabric fabric;
    QPCIDevice *dev;
    QPCIBar ctrl, uar;
    uint64_t aq, acq, mbox;
    uint32_t pi;
} Card;

/* Arguments of a machine whose memory a card can use. */
#define SHARED  "-object memory-backend-memfd,id=ram,size=128M,share=on" \
                " -machine memory-backend=ram"

/* The file that is the machine's firmware. */
extern char *bios;

/*
 * Call card_test_init() before adding tests, and card_test_run() instead of
 * g_test_run(), whose result it returns.
 */
void card_test_init(int *argc, char ***argv);
int card_test_run(void);

/* Returns: the first card of a machine, which the caller frees, or NULL */
QPCIDevice *card_find(QOSState *qs);

/*
 * fabric_open() starts a fabric of one switch, fabric_close() ends it.
 * fabric_kill() and fabric_start() restart it with the same socket.
 */
void fabric_open(Fabric *f);
void fabric_close(Fabric *f);
void fabric_start(Fabric *f);
void fabric_kill(Fabric *f);

/*
 * card_boot() starts a fabric, which accepts memory on a disk if @before has
 * mem-path=, starts a machine with a card, and maps its BARs. card_close() ends
 * both. card_boot_at() uses the fabric in @c; all other fields of @c are 0.
 * @before: arguments before the card's; @props: properties, and later
 * arguments.
 */
void card_boot_at(Card *c, const char *before, const char *props);
void card_boot(Card *c, const char *before, const char *props);
void card_open(Card *c, const char *props);
void card_close(Card *c);
void card_map(Card *c);

/* Plug a card with these properties: this must fail with an error with @why. */
void expect_refusal(QTestState *qts, const char *props, const char *why);

uint32_t reg(Card *c, unsigned int off);
/* Wait until OHCA_REG_STATUS is @status. */
void expect_status(Card *c, uint32_t status);
void card_reset(Card *c);
void card_start(Card *c);

/*
 * vtd_tables() makes tables of intel-iommu, which map the first GiB to itself
 * for the card, and returns their root. vtd_invalidate() makes changes of the
 * tables effective. vtd_command() writes @value to GCMD and checks @bit in
 * GSTS.
 */
uint64_t vtd_page(Card *c);
uint64_t vtd_tables(Card *c);
void vtd_invalidate(Card *c);
void vtd_command(Card *c, uint32_t bit, uint32_t value);

/* Post an admin command; check for completion; wait for it; post and wait. */
void card_post(Card *c, struct ohca_hw_aqe *cmd);
bool card_done(Card *c, struct ohca_hw_acqe *r);
struct ohca_hw_acqe card_wait(Card *c);
struct ohca_hw_acqe card_cmd(Card *c, struct ohca_hw_aqe *cmd);
void expect_nop(Card *c);

void card_port_info(Card *c, uint8_t method, uint8_t pi[64]);
void card_info_of_port(Card *c, uint8_t port, uint8_t method, uint8_t pi[64]);
/* Wait until PortPhysicalState of port 1, or of @port, is @state. */
void expect_phys_state(Card *c, unsigned int state);
void expect_phys_state_of(Card *c, uint8_t port, unsigned int state);

#endif /* OHCA_CARD_H */
