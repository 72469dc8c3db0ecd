/* SPDX-License-Identifier: GPL-2.0-or-later */
/* qtest of the wire: cards plugged in and out, who says nothing on the fabric. */
#include "qemu/osdep.h"
#include <sys/socket.h>
#include <sys/un.h>
#include "libqtest.h"
#include "ohca-card.h"

/* ACPI's register of slots to be ejected */
#define ACPI_EJECT  0xae08

/*
 * Two cards back to back, one of them plugged in and out while all runs. With
 * x-engine=inline the listener can answer only after device_add.
 */
static void test_plug(const void *mode)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *props = g_strdup_printf(",fabric=%s,listen=on%s", path,
                                             (const char *)mode);
    Card c, second;
    int i;

    card_open(&c, props);
    card_start(&c);
    expect_nop(&c);
    for (i = 0; i < 3; i++) {
        qtest_qmp_device_add(c.qs->qts, "ohca", "second",
                             "{'fabric': %s, 'addr': '6', 'ports': 1}", path);
        second = (Card) {
            .qs = c.qs,
            .dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(6, 0)),
        };
        card_map(&second);
        card_start(&second);
        expect_phys_state(&c, PHYS_LINK_UP);
        g_free(second.dev);
        qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);
        expect_phys_state(&c, PHYS_POLLING);
    }
    card_close(&c);
    g_assert(!g_file_test(path, G_FILE_TEST_EXISTS));
    rmdir(dir);
}

/*
 * A card takes the place of one that was just pulled, whose memory RCU still
 * has. Its BARs were mapped: the memory is part of an address space.
 */
static void test_replug(void)
{
    Card c, second;
    int i;

    card_open(&c, "");
    for (i = 0; i < 5; i++) {
        qtest_qmp_device_add(c.qs->qts, "ohca", "second", "{'addr': '6'}");
        second = (Card) {
            .qs = c.qs,
            .dev = qpci_device_find(c.qs->pcibus, QPCI_DEVFN(6, 0)),
        };
        card_map(&second);
        qpci_iomap(second.dev, OHCA_BAR_DM, NULL);
        g_free(second.dev);
        /* whose event tells when RCU gives it up is not waited for */
        qtest_qmp_device_del_send(c.qs->qts, "second");
        qtest_outl(c.qs->qts, ACPI_EJECT, 1 << 6);
    }
    card_close(&c);
}

/* A socket that connects to @path, or listens there. */
static int peer_open(const char *path, bool listening)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 60 };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    g_strlcpy(sa.sun_path, path, sizeof(sa.sun_path));
    g_assert_cmpint(fd, >=, 0);
    g_assert(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
                         sizeof(patience)));
    if (listening) {
        g_assert(!bind(fd, (struct sockaddr *)&sa, sizeof(sa)));
        g_assert(!listen(fd, 0));   /* one may wait */
    } else {
        g_assert(!connect(fd, (struct sockaddr *)&sa, sizeof(sa)));
    }
    return fd;
}

/* The next card that connects has said HELLO. */
static int peer_accept(int listener)
{
    char hello[512];
    int fd = accept(listener, NULL, NULL);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(recv(fd, hello, sizeof(hello), 0), >, 0);
    return fd;
}

/* The card refuses: an error message that says @why, then the end. */
static void peer_refused(int fd, const char *why)
{
    char buf[513];
    ssize_t i, n = recv(fd, buf, sizeof(buf) - 1, 0);

    g_assert_cmpint(n, >, 0);
    for (i = 0; i < n; i++) {
        buf[i] = buf[i] ?: ' ';
    }
    buf[n] = 0;
    g_test_message("%s", buf);
    g_assert(strstr(buf, why));
    g_assert_cmpint(recv(fd, buf, sizeof(buf), 0), ==, 0);
    close(fd);
}

/* Who connects and says nothing does not keep a listening port from others. */
static void test_silent_peer(const void *props)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    g_autofree char *args = g_strdup_printf(",fabric=%s,listen=on%s", path,
                                            (const char *)props);
    int silent, other;
    Card c;

    card_open(&c, args);
    card_start(&c);
    silent = peer_open(path, false);
    other = peer_open(path, false);
    g_assert_cmpint(send(other, "hello", 5, 0), ==, 5);
    peer_refused(silent, "no HELLO within 2 s");
    peer_refused(other, "does not speak");
    expect_nop(&c);
    card_close(&c);
    rmdir(dir);
}

/*
 * A card that is plugged in does not wait for its listener: QEMU goes on. It
 * tries again while the listener is busy, and when the answer is none.
 */
static void test_silent_listener(const void *mode)
{
    g_autofree char *dir = g_dir_make_tmp("ohca-XXXXXX", NULL);
    g_autofree char *path = g_strdup_printf("%s/fabric", dir);
    int listener = peer_open(path, true), fd;
    int busy = peer_open(path, false);
    Card c;

    card_open(&c, "");
    card_start(&c);
    /* the backlog is full */
    qtest_qmp_device_add(c.qs->qts, "ohca", "second", "{'fabric': %s, "
                         "'addr': '6', 'x-engine': %s}", path,
                         (const char *)mode);
    expect_nop(&c);
    close(accept(listener, NULL, NULL));
    close(busy);
    /* it has said HELLO and waits */
    fd = peer_accept(listener);
    expect_nop(&c);
    g_assert_cmpint(send(fd, "what?", 5, 0), ==, 5);
    close(fd);
    close(peer_accept(listener));
    qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);

    /* the same without anything in the way: no wait for the answer */
    qtest_qmp_device_add(c.qs->qts, "ohca", "second", "{'fabric': %s, "
                         "'addr': '6', 'x-engine': %s}", path,
                         (const char *)mode);
    expect_nop(&c);
    close(peer_accept(listener));
    qpci_unplug_acpi_device_test(c.qs->qts, "second", 6);
    card_close(&c);
    close(listener);
    unlink(path);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    card_test_init(&argc, &argv);
    qtest_add_data_func("/ohca/plug/thread", "", test_plug);
    qtest_add_data_func("/ohca/plug/inline", ",x-engine=inline", test_plug);
    qtest_add_func("/ohca/plug/again", test_replug);
    qtest_add_data_func("/ohca/silent-peer/thread", "", test_silent_peer);
    qtest_add_data_func("/ohca/silent-peer/inline", ",x-engine=inline",
                        test_silent_peer);
    qtest_add_data_func("/ohca/silent-listener/thread", "thread",
                        test_silent_listener);
    qtest_add_data_func("/ohca/silent-listener/inline", "inline",
                        test_silent_listener);
    return card_test_run();
}
