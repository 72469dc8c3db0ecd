/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A connection to a control socket; private to client/. */
#ifndef OHCA_FABRIC_CONTROL_CLIENT_H
#define OHCA_FABRIC_CONTROL_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "fabric/control/control.h"
#include "fabric/graph/graph.h"

/** fab_client_dial() - open a stream from the socket at @path; NULL: the error was printed */
FILE *fab_client_dial(const char *path);

/** fab_client_send() - send request @v to @fd, and free @v. Return: false: it was not sent. */
bool fab_client_send(int fd, json_t *v);

/**
 * fab_client_reply() - receive the next reply
 * @name: the file whose text the request has, or NULL
 * @line, @size: buffer, as of getline()
 *
 * Return: NULL: an error, which was printed.
 */
json_t *fab_client_reply(FILE *s, const char *name, char **line, size_t *size);

/**
 * fab_client_pages() - request all parts of a reply
 * @node: a node, or NULL: all
 * @file: request the topology as a file
 * @part: called with @ctx for each part; returns whether it is valid
 *
 * Return: false: one was not valid, or an error was printed.
 */
bool fab_client_pages(FILE *s, const char *command, const char *node, bool file,
		      bool (*part)(void *ctx, json_t *v), void *ctx);

/** fab_client_say() - print an error, as of struct fab_report; @ctx: name of the topology file */
void fab_client_say(void *ctx, unsigned int line, const char *text);

/** fab_client_warn() - the same of a warning */
void fab_client_warn(void *ctx, unsigned int line, const char *text);

/**
 * fab_client_topology() - read the nodes and links of the fabric at @s
 * @f: an empty fabric, to be sealed next
 * @path: of the socket, for errors
 *
 * Return: false: the error was printed.
 */
bool fab_client_topology(FILE *s, struct fab *f, const char *path);

/**
 * fab_client_complete() - check that reply @v has the member @needs
 *
 * A fabric of another version may not send it.
 *
 * Return: false: it is missing; the error was printed.
 */
bool fab_client_complete(const json_t *v, const char *needs);

/**
 * fab_capture_client() - ohca-fabric capture NODE:PORT... -w FILE
 * @argc: number of @argv
 * @argv: capture, its options and its ports
 *
 * Return: exit status; errors were printed.
 */
int fab_capture_client(int argc, char **argv);

/**
 * fab_metrics_client() - ohca-fabric metrics: OpenMetrics text to standard output
 * @argc: number of @argv
 * @argv: metrics and its options
 *
 * Return: exit status; errors were printed.
 */
int fab_metrics_client(int argc, char **argv);

/**
 * fab_adaptive_client() - ohca-fabric adaptive on|off [SWITCH...]
 * @argc: number of @argv
 * @argv: adaptive, its options and its words
 *
 * Return: exit status; errors were printed.
 */
int fab_adaptive_client(int argc, char **argv);

/**
 * fab_script_words() - make the request of "script WORD...", which may include --wait
 * @w: [@n] words
 * @name: set to the file among them, or NULL
 * @why: if they are not valid, what to write instead; NULL: the error was printed
 *
 * Return: the request, or NULL.
 */
json_t *fab_script_words(int n, char **w, const char **name, const char **why);

/**
 * fab_script_wait() - print the results of the lines of a script, until the last one was executed
 * @s: stream of the fabric that runs it
 * @name, @text: of the script
 * @number: number that the fabric has assigned
 *
 * Return: exit status: EXIT_FAILURE if a line failed, or an expectation was not met.
 */
int fab_script_wait(FILE *s, const char *name, const char *text, json_int_t number);

/**
 * fab_script_read() - read the text of a script
 * @name: of the file, "-": standard input
 * @text: [FAB_CONTROL_LINE] written, with a terminator; [*@len]
 *
 * Return: false: the error was printed.
 */
bool fab_script_read(const char *name, char *text, size_t *len);

/**
 * fab_script_print() - print the result of a line
 * @name, @text: of the script, which has that @line
 * @ns: its time, since the start
 * @skipped: its condition was never met
 * @why: why it has failed, or NULL
 */
void fab_script_print(const char *name, const char *text, unsigned int line, double ns, bool skipped,
		      const char *why);

/** fab_script_print_errors() - print the errors of @reply with the lines of file @name */
void fab_script_print_errors(const char *name, const json_t *reply);

#endif
