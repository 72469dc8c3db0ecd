/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Live migration to another QEMU that uses the same process ohca-fabric.
 *
 * The HCA stays in the process, with its queue pairs and links, because it uses
 * bus addresses only. The migration stream has the state of the PCI function
 * and a token, by which the other QEMU takes the HCA over (core/front/proto.h).
 *
 * The order is:
 * 1. The machine stops. QEMU sends RUN to the process, which writes no memory
 *    after its answer. All earlier writes are in the logs.
 * 2. QEMU synchronizes dirty memory for the last time, which reads the logs,
 *    and sends the rest of RAM.
 * 3. QEMU requests the token by LEAVE and sends the state of the device.
 * 4. The other QEMU, which has all of RAM now, connects with the token.
 *
 * The first QEMU that runs the machine after that keeps the HCA.
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

#define OHCA_NO_SNAPSHOT    "%s: an InfiniBand adapter has no snapshot: " \
                            "use live migration"

/* ---- source ---- */

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
        error_report("%s: ohca-fabric refused to move the HCA: is guest memory "
                     "on a disk?", ohca_name(s));
        return -EINVAL;
    }
    /* r < 0: there is no HCA; the device starts as AWAY at the other QEMU */
    return 0;
}

/* ---- destination ---- */

/*
 * Prepare for -incoming: make no attempts to connect before the state is
 * loaded.
 *
 * Returns: false: out of memory
 */
bool ohca_hosted_await(OhcaState *s)
{
    OhcaHosted *h = &s->host;

    h->front = g_new0(OhcaFront, 1);
    h->front->f = ohca_front_none("the machine has not received its state yet");
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
        error_report("%s: 0x%" PRIx64 " in the machine's state is not a GUID",
                     ohca_name(s), h->move_guid);
        return -EINVAL;
    }
    if (!s->guid_is_made && s->guid != h->move_guid) {
        error_report("%s: guid is 0x%" PRIx64 ", but the machine's state has "
                     "0x%" PRIx64 ": use this or no guid",
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
    /* without a token there is no HCA; QEMU connects when the machine runs */
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

/* ---- blockers ---- */

#define OHCA_NO_POSTCOPY    "%s: ohca-fabric does not support postcopy"

/* At the destination: refuse postcopy. */
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

/* At the source: refuse a migration with unsupported capabilities. */
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
        error_setg(errp, "%s: an InfiniBand adapter does not support COLO",
                   ohca_name(s));
    } else if (migrate_background_snapshot()) {
        error_setg(errp, OHCA_NO_SNAPSHOT, ohca_name(s));
    } else {
        return 0;
    }
    return -ENOTSUP;
}

/* Returns: the state of the device that cannot migrate, or NULL */
static const char *ohca_why_stay(OhcaState *s)
{
    return qatomic_read(&s->deaf) ? "x-deaf is on" :
           s->lies ? "x-lies is not 0" :
           s->host.on_disk ? "ohca-fabric has guest memory on a disk" : NULL;
}

/**
 * ohca_hosted_stay: block migration while some state cannot migrate
 *
 * Call this after each change of such state.
 *
 * Returns: false: it cannot be blocked, because of a migration that is under
 * way or because of --only-migratable
 */
bool ohca_hosted_stay(OhcaState *s, Error **errp)
{
    OhcaHosted *h = &s->host;
    const char *why = ohca_why_stay(s);

    migrate_del_blocker(&h->no_move);
    if (!why || !h->begins.notify) {
        return true;
    }
    error_setg(&h->no_move, "%s cannot migrate: %s", ohca_name(s), why);
    return !migrate_add_blocker_normal(&h->no_move, errp);
}

bool ohca_hosted_move_init(OhcaState *s, Error **errp)
{
    OhcaHosted *h = &s->host;

    /* CPR keeps neither the device memory nor the connection to the process */
    error_setg(&h->no_cpr, "%s: an InfiniBand adapter supports only "
               "live migration", ohca_name(s));
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
