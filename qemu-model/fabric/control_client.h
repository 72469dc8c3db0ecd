/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A connection to a control socket; private to control_client.c and control_client_capture.c. */
#ifndef OHCA_FABRIC_CONTROL_CLIENT_H
#define OHCA_FABRIC_CONTROL_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/** fab_client_dial() - a stream from the socket at @path, or NULL: what is wrong was printed */
FILE *fab_client_dial(const char *path);

/** fab_client_send() - send a request to @fd, and forget it. Return: false: it was not sent. */
bool fab_client_send(int fd, json_t *v);

/**
 * fab_client_reply() - the next reply
 * @line, @size: of it, as of getline()
 *
 * Return: NULL: an error, which was printed.
 */
json_t *fab_client_reply(FILE *s, char **line, size_t *size);

/**
 * fab_capture_client() - ohca-fabric capture NODE:PORT... -w FILE
 * @argc: number of @argv
 * @argv: capture, its options and its ports
 *
 * Return: exit status; what went wrong was printed.
 */
int fab_capture_client(int argc, char **argv);

#endif
