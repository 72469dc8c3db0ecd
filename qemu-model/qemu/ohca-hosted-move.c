/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Live migration to another QEMU at the same process of the fabric.
 *
 * The HCA stays in that process, with its queue pairs and links: it knows guest
 * memory by bus addresses only. The state of the device has a token, by which the
 * front of the other QEMU takes the HCA over (core/front/proto.h), and the PCI
 * function.
 *
 * The order is: the machine stops, the process is told, and writes no memory after
 * its answer; what it has written until then is in its log; QEMU synchronizes
 * dirty memory for the last time, which takes that log, and sends the rest of RAM;
 * then the token is asked for. The other QEMU has all of RAM before it uses the
 * token. Whoever lets the machine go on first has the HCA.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "hw/pci/msix.h"
#include "migration/blocker.h"
#include "migration/misc.h"
#include "migration/options.h"
#include "migration/postcopy-ram.h"
#include "migration/vmstate.h"
#include "ohca.h"

#define OHCA_NO_SNAPSHOT    "%s: an InfiniBand adapter has no snapshot: its peers " \
                            "go on; only live migration is possible"

/* ---- leaving ---- */

static int ohca_pre_save(void *opaque)
{
    OhcaState *s = opaque;
    OhcaHosted *h = &s->host;
    struct ohca_front_hdr m;
    int r;

    h->token = 0;
    if (!runstate_check(RUN_STATE_FINISH_MIGRATE)) {
        error_report(OHCA_NO_SNAPSHOT, ohca_name(s));
        return -EINVAL;
    }
    ohca_hosted_hold(s);
    r = ohca_hosted_say(s, OHCA_FRONT_LEAVE, &m, sizeof(m), -1, &h->token);
    if (r > 0) {
        error_report("%s: ohca-fabric does not let the HCA go: is guest memory "
                     "on a disk?", ohca_name(s));
        return -EINVAL;
    }
    /* r < 0: without its process the device is away at the other QEMU, too */
    return 0;
}

/* ---- coming ---- */

/*
 * Nothing asks for the HCA before the state comes.
 *
 * Returns: false: out of memory
 */
bool ohca_hosted_await(OhcaState *s)
{
    OhcaHosted *h = &s->host;

    h->front = g_new0(OhcaFront, 1);
    h->front->f = ohca_front_none("the machine's state has not come yet");
    if (!h->front->f) {
        g_free(g_steal_pointer(&h->front));
        return false;
    }
    h->awaited = h->held = true;
    return true;
}

static int ohca_post_load(void *opaque, int version_id)
{
    OhcaState *s = opaque;
    OhcaHosted *h = &s->host;
    Error *err = NULL;

    if (!h->move_guid || h->move_guid > UINT64_MAX - OHCA_PORTS) {
        error_report("%s: the machine's guid, 0x%" PRIx64 ", is none",
                     ohca_name(s), h->move_guid);
        return -EINVAL;
    }
    if (!s->guid_is_made && s->guid != h->move_guid) {
        error_report("%s: guid is 0x%" PRIx64 ", that of the machine 0x%" PRIx64,
                     ohca_name(s), s->guid, h->move_guid);
        return -EINVAL;
    }
    if (!h->awaited) {
        error_report("%s: an InfiniBand adapter has no snapshot", ohca_name(s));
        return -EINVAL;
    }
    s->guid = h->move_guid;
    h->hello.node_guid = cpu_to_le64(s->guid);
    h->awaited = false;
    ohca_hosted_iommu_loaded(s);
    /* without a token the machine comes without an HCA, and asks for one when it runs */
    if (h->token && !ohca_hosted_connect(s, &err)) {
        error_reportf_err(err, "%s: ", ohca_name(s));
        return -EINVAL;
    }
    return 0;
}

const VMStateDescription ohca_vmstate = {
    .name = TYPE_OHCA,
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = ohca_pre_save,
    .post_load = ohca_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, OhcaState),
        VMSTATE_MSIX(parent_obj, OhcaState),
        VMSTATE_UINT64(host.move_guid, OhcaState),
        VMSTATE_UINT64(host.token, OhcaState),
        VMSTATE_END_OF_LIST()
    },
};

/* ---- what does not go ---- */

#define OHCA_NO_POSTCOPY    "%s: ohca-fabric cannot wait for memory: no postcopy"

/* The other QEMU is asked for postcopy. */
static int ohca_no_postcopy(NotifierWithReturn *n, void *data, Error **errp)
{
    struct PostcopyNotifyData *pnd = data;
    OhcaState *s = container_of(n, OhcaState, host.postcopy);

    if (pnd->reason != POSTCOPY_NOTIFY_PROBE) {
        return 0;
    }
    error_setg(errp, OHCA_NO_POSTCOPY, ohca_name(s));
    return -ENOENT;
}

/* A migration begins: with which capabilities? */
static int ohca_migration_begins(NotifierWithReturn *n, MigrationEvent *e,
                                 Error **errp)
{
    OhcaState *s = container_of(n, OhcaState, host.begins);

    if (e->type != OHCA_MIGRATION_BEGINS) {
        return 0;
    }
    if (migrate_postcopy_ram()) {
        error_setg(errp, OHCA_NO_POSTCOPY, ohca_name(s));
    } else if (migrate_colo()) {
        error_setg(errp, "%s: an InfiniBand adapter is in one machine: no COLO",
                   ohca_name(s));
    } else if (migrate_background_snapshot()) {
        error_setg(errp, OHCA_NO_SNAPSHOT, ohca_name(s));
    } else {
        return 0;
    }
    return -ENOTSUP;
}

/* What of the device would not be so at the other QEMU; NULL: nothing. */
static const char *ohca_why_stay(OhcaState *s)
{
    return qatomic_read(&s->deaf) ? "it is deaf (x-deaf)" :
           s->lies ? "it lies (x-lies)" :
           s->host.on_disk ? "ohca-fabric has guest memory on a disk" : NULL;
}

/**
 * ohca_hosted_stay: migration is refused as long as something would not go
 *
 * To be called when that may have changed.
 *
 * Returns: false: it is not, because one is under way, or --only-migratable says so
 */
bool ohca_hosted_stay(OhcaState *s, Error **errp)
{
    OhcaHosted *h = &s->host;
    const char *why = ohca_why_stay(s);

    migrate_del_blocker(&h->no_move);
    if (!why || !h->begins.notify) {
        return true;
    }
    error_setg(&h->no_move, "%s does not migrate: %s", ohca_name(s), why);
    return !migrate_add_blocker_normal(&h->no_move, errp);
}

bool ohca_hosted_move_init(OhcaState *s, Error **errp)
{
    OhcaHosted *h = &s->host;

    /* device memory would be left behind, and the connection ends with its process */
    error_setg(&h->no_cpr, "%s: an InfiniBand adapter has live migration alone",
               ohca_name(s));
    if (ohca_block_cpr(&h->no_cpr, errp)) {
        return false;
    }
    h->postcopy.notify = ohca_no_postcopy;
    postcopy_add_notifier(&h->postcopy);
    migration_add_notifier(&h->begins, ohca_migration_begins);
    return ohca_hosted_stay(s, errp);
}

void ohca_hosted_move_exit(OhcaState *s)
{
    OhcaHosted *h = &s->host;

    migrate_del_blocker(&h->no_cpr);
    migrate_del_blocker(&h->no_move);
    if (h->begins.notify) {
        postcopy_remove_notifier(&h->postcopy);
        migration_remove_notifier(&h->begins);
    }
}
