/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The card as a guest without an operating system uses it, and its machine. */
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

/* Arguments of a machine with it, and properties of a card that is behind it. */
#define VTD_MACHINE " -machine q35 -device intel-iommu,caching-mode=on"
#define VTD_CARD    ",addr=4"

/**
 * struct Fabric - a process of ohca-fabric: $OHCA_FABRIC
 * @pid: it, 0: there is none
 * @dir: of its socket
 * @path: its socket
 * @disk: machines may have memory on a disk
 */
typedef struct Fabric {
    pid_t pid;
    char *dir;
    char *path;
    bool disk;
} Fabric;

/**
 * struct Card - a card, and the memory by which it is used
 * @qs: the machine
 * @fabric: has the card
 * @dev: its PCI function
 * @ctrl: BAR of registers
 * @uar: BAR of doorbells
 * @aq: the admin queue, a guest's physical address, as those that follow
 * @acq: the admin completion queue
 * @mbox: a mailbox
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
 * card_test_init() comes before tests are added; card_test_run() stands for
 * g_test_run() and returns its result.
 */
void card_test_init(int *argc, char ***argv);
int card_test_run(void);

/* The first card of a machine, which the caller frees, or NULL. */
QPCIDevice *card_find(QOSState *qs);

/* Start a fabric of one switch, and end it; start it again at the same place. */
void fabric_open(Fabric *f);
void fabric_close(Fabric *f);
void fabric_start(Fabric *f);
void fabric_kill(Fabric *f);

/*
 * Start a fabric, which takes memory on a disk if @before has a mem-path=, and a
 * machine with a card at it, find its BARs; card_close() ends both. With
 * card_boot_at() the fabric is there, and all else of @c is 0.
 */
void card_boot_at(Card *c, const char *before, const char *props);
void card_boot(Card *c, const char *before, const char *props);
void card_open(Card *c, const char *props);
void card_close(Card *c);
void card_map(Card *c);

/* Plug a card with these properties in: it must be refused, and @why is said. */
void expect_refusal(QTestState *qts, const char *props, const char *why);

uint32_t reg(Card *c, unsigned int off);
/* Wait until OHCA_REG_STATUS is @status. */
void expect_status(Card *c, uint32_t status);
void card_reset(Card *c);
void card_start(Card *c);

/*
 * Tables of intel-iommu, at the root that is returned: the first GiB is translated to
 * itself for the card. Have it read them again; switch something on or off.
 */
uint64_t vtd_page(Card *c);
uint64_t vtd_tables(Card *c);
void vtd_invalidate(Card *c);
void vtd_command(Card *c, uint32_t bit, uint32_t value);

/* Post an admin command, see if it is done, wait for it; or all of these. */
void card_post(Card *c, struct ohca_hw_aqe *cmd);
bool card_done(Card *c, struct ohca_hw_acqe *r);
struct ohca_hw_acqe card_wait(Card *c);
struct ohca_hw_acqe card_cmd(Card *c, struct ohca_hw_aqe *cmd);
void expect_nop(Card *c);

void card_port_info(Card *c, uint8_t method, uint8_t pi[64]);
void card_info_of_port(Card *c, uint8_t port, uint8_t method, uint8_t pi[64]);
/* Wait until PortPhysicalState of port 1, or another one, is @state. */
void expect_phys_state(Card *c, unsigned int state);
void expect_phys_state_of(Card *c, uint8_t port, unsigned int state);

#endif /* OHCA_CARD_H */
