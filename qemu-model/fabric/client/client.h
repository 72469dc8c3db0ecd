/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A connection to a control socket; private to client/. */
#ifndef OHCA_FABRIC_CONTROL_CLIENT_H
#define OHCA_FABRIC_CONTROL_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "fabric/control/control.h"
#include "fabric/graph/graph.h"

/** fab_client_dial() - a stream from the socket at @path, or NULL: what is wrong was printed */
FILE *fab_client_dial(const char *path);

/** fab_client_send() - send a request to @fd, and forget it. Return: false: it was not sent. */
bool fab_client_send(int fd, json_t *v);

/**
 * fab_client_reply() - the next reply
 * @name: the file that the request has the text of, or NULL
 * @line, @size: of it, as of getline()
 *
 * Return: NULL: an error, which was printed.
 */
json_t *fab_client_reply(FILE *s, const char *name, char **line, size_t *size);

/**
 * fab_client_pages() - all parts of the answer to a request
 * @node: that it is about, or NULL: all
 * @file: the topology is wanted as a file
 * @part: is given each with @ctx, and says whether it is good
 *
 * Return: false: one was not, or what went wrong was printed.
 */
bool fab_client_pages(FILE *s, const char *command, const char *node, bool file,
		      bool (*part)(void *ctx, json_t *v), void *ctx);

/** fab_client_say() - print an error of a topology; @ctx: the file's name. As of struct fab_report. */
void fab_client_say(void *ctx, unsigned int line, const char *text);

/** fab_client_warn() - the same of a warning */
void fab_client_warn(void *ctx, unsigned int line, const char *text);

/**
 * fab_client_topology() - the nodes and links of the fabric behind @s
 * @f: an empty fabric, to be sealed next
 * @path: of the socket, for errors
 *
 * Return: false: what went wrong was printed.
 */
bool fab_client_topology(FILE *s, struct fab *f, const char *path);

/**
 * fab_client_complete() - whether reply @v has the member @needs
 *
 * A fabric of another version may send none.
 *
 * Return: false: it has none, which was printed.
 */
bool fab_client_complete(const json_t *v, const char *needs);

/**
 * fab_capture_client() - ohca-fabric capture NODE:PORT... -w FILE
 * @argc: number of @argv
 * @argv: capture, its options and its ports
 *
 * Return: exit status; what went wrong was printed.
 */
int fab_capture_client(int argc, char **argv);

/**
 * fab_metrics_client() - ohca-fabric metrics: text of OpenMetrics to standard output
 * @argc: number of @argv
 * @argv: metrics and its options
 *
 * Return: exit status; what went wrong was printed.
 */
int fab_metrics_client(int argc, char **argv);

/**
 * fab_adaptive_client() - ohca-fabric adaptive on|off [SWITCH...]
 * @argc: number of @argv
 * @argv: adaptive, its options and its words
 *
 * Return: exit status; what went wrong was printed.
 */
int fab_adaptive_client(int argc, char **argv);

/**
 * fab_script_words() - the request of "script WORD...", among which --wait may be
 * @w: [@n] words
 * @name: the file that is among them, or NULL
 * @why: what to write instead if they are wrong; NULL: what is wrong was printed
 *
 * Return: the request, or NULL.
 */
json_t *fab_script_words(int n, char **w, const char **name, const char **why);

/**
 * fab_script_wait() - print what becomes of the lines of a script, until the last one was played
 * @s: of the fabric that plays it
 * @name, @text: of the script
 * @number: that the fabric has given it
 *
 * Return: exit status: EXIT_FAILURE if a line could not be done, or something was not as expected.
 */
int fab_script_wait(FILE *s, const char *name, const char *text, json_int_t number);

/**
 * fab_script_read() - the text of a script
 * @name: of the file, "-": standard input
 * @text: [FAB_CONTROL_LINE] gets it, with a 0 behind it; [*@len]
 *
 * Return: false: what is wrong was printed.
 */
bool fab_script_read(const char *name, char *text, size_t *len);

/**
 * fab_script_print() - print what became of a line
 * @name, @text: of the script, which has that @line
 * @ns: when, from the begin
 * @skipped: its condition was never so
 * @why: why it has failed, or NULL
 */
void fab_script_print(const char *name, const char *text, unsigned int line, double ns, bool skipped,
		      const char *why);

/** fab_script_print_errors() - print the errors of @reply with the lines of file @name */
void fab_script_print_errors(const char *name, const json_t *reply);

#endif
