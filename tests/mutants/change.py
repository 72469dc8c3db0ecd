# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes of single lines of C: all possible changes of a file, and each change by itself.

Only lines of functions' bodies are changed, in sources and in headers. Comments, strings,
preprocessor lines, assertions, declarations without a value, and statements that only log are not
changed.
"""
import re
from dataclasses import dataclass

# Statements that start with one of these only log.
SILENT = re.compile(r"\s*(?:\(void\))?\s*(?:assert|static_assert|_Static_assert|link_err|sw_log|"
                    r"sw_print_stats|log_\w+|log|ohca_trace|trace\w*|printf|fprintf|vfprintf|"
                    r"verbs_err|perror|fputs|puts)\s*\(")
# In the order of C's grammar; a longer operator comes before a shorter one.
TOKEN = re.compile(r"""(?P<name>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+[uUlL]*)|
                   (?P<op><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^!<>=.,;:?(){}\[\]~])
                   """, re.X)
TURNED = {"==": "!=", "!=": "==", "<": ">=", ">": "<=", "<=": ">", ">=": "<"}
NEXT = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
JOINED = {"&&": "||", "||": "&&"}
# A call, an assignment, or a jump without a value.
STATEMENT = re.compile(r"\s+(?:(?:break|continue|return|goto \w+);|"
                       r"(?:\+\+|--)?[*(]*[A-Za-z_][\w.>\[\]()*-]*"
                       r"(?:(?:\+\+|--)?;| (?:[-+*/%&|^]|<<|>>)?= .*;|\(.*\);))$")
NO_CALL = re.compile(r"\s+\(void\)|\s+(?:if|for|while|switch|return|sizeof|case|else|do)\b")
# A line after which a statement starts; so does a function's first one.
ENDS = re.compile(r"(?:^|[;{})]|\b(?:else|do)|^\s*(?:case\b.*|\w+):)$")
# A line whose statement continues with the parts of a value in braces.
PARTS = re.compile(r"(?:=|\breturn) (?:\([\w ]+\))?\{")
CONDITION = re.compile(r"(?:\} else )?(?:else )?(?:if|while) \(")


@dataclass(frozen=True)
class Change:
    """One line of a file as it is and as it becomes."""
    path: str       # from the top of the tree
    line: int       # from 1
    start: int      # the line with which its statement starts
    begin: int      # the line with which its function's head starts
    nth: int        # which of the equal lines of its function, from 1
    function: str
    kind: str
    old: str
    new: str

    def apply(self, text):
        """The file's text with this change."""
        lines = text.split("\n")
        if lines[self.line - 1] != self.old:
            raise ValueError(f"{self.path}:{self.line} is another line")
        lines[self.line - 1] = self.new
        return "\n".join(lines)


def blank(text):
    """Text with comments and quoted parts replaced by as many spaces; lines stay."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def spaces(match):
        s = match.group()
        inner = re.sub(r"[^\n]", " ", s)
        return s[0] + inner[1:-1] + s[-1] if s[0] in "\"'" else inner
    return pattern.sub(spaces, text)


def bodies(lines):
    """Numbers, from 0, of the lines of functions' bodies, each with its function's name and the
    number, from 1, of the first line of its head."""
    name, begin = None, 0
    for i, line in enumerate(lines):
        if line == "{":
            # the name stands before the parameters, which may take several lines
            head = ""
            for begin in range(i - 1, -1, -1):
                head = lines[begin] + " " + head
                if not lines[begin].startswith((" ", "\t")):
                    break
            found = re.findall(r"(\w+)\(", head)
            name = next((n for n in found if not n.startswith("__")), "?")
        elif line.startswith("}"):
            name = None
        elif name is not None:
            yield i, name, begin + 1


def edits_of(line, code):
    """All (kind, new line) of a line; code is the line without comments and strings."""
    tokens = list(TOKEN.finditer(code))

    def put(kind, token, text):
        return kind, line[:token.start()] + text + line[token.end():]

    for at, token in enumerate(tokens):
        text = token.group()
        before = tokens[at - 1].group() if at else ""
        spaced = code[token.start() - 1:token.start()] == " " and \
            code[token.end():token.end() + 1] in (" ", "")
        if token.lastgroup == "op":
            if text in TURNED and spaced:
                yield put("compare", token, TURNED[text])
            if text in NEXT and spaced:
                yield put("off by one", token, NEXT[text])
            if text in JOINED:
                yield put("condition", token, JOINED[text])
            if text == "!":
                yield put("condition", token, "")
        elif token.lastgroup == "number":
            digits = text.rstrip("uUlL")
            suffix, value = text[len(digits):], int(digits, 0 if digits[:2] in ("0x", "0X") else 10)
            form = "{:#x}{}" if digits[:1] == "0" and len(digits) > 1 else "{}{}"
            yield put("off by one", token, form.format(value + 1, suffix))
            if value:
                yield put("off by one", token, form.format(value - 1, suffix))
            if value > 2:
                yield put("constant", token, form.format(value * 2, suffix))
        elif text in ("true", "false"):
            yield put("constant", token, "false" if text == "true" else "true")
        elif re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", text) and text != "NULL" and \
                before != "case" and code[token.end():token.end() + 1] != "(":
            yield put("constant", token, f"({text} + 1)")


def changes_of(path, text):
    """All changes of a file, by line."""
    lines, codes = text.split("\n"), blank(text).split("\n")
    depth, last, silent, function, start, seen, braces = 0, "", False, None, 0, [], 0
    for i, name, begin in bodies(codes):
        code = codes[i].rstrip()
        if name != function:
            depth, last, silent, function, seen, braces = 0, "", False, name, [], 0
        if not code.strip() or code.lstrip().startswith("#"):
            continue
        # whether a statement starts here, and whether all of it is on this line
        starts = depth == 0 and braces == 0 and ENDS.search(last)
        if braces or PARTS.search(code):
            braces += code.count("{") - code.count("}")
        if starts:
            silent, start = bool(SILENT.match(code)), i + 1
        depth += code.count("(") - code.count(")")
        found = []
        if not silent and not re.search(r"\b(?:static_assert|assert)\(", code):
            found = list(edits_of(lines[i], codes[i]))
            whole = CONDITION.search(code)
            if whole and depth == 0 and code.endswith((")", "{")):
                end = code.rindex(")")
                found.append(("condition", lines[i][:whole.end()] + "!(" +
                              lines[i][whole.end():end] + ")" + lines[i][end:]))
            if starts and depth == 0 and STATEMENT.match(code) and not NO_CALL.match(code) or \
                    re.fullmatch(r"\s+return;", code):
                indent = re.match(r"\s*", code).group()
                found.append(("dropped", indent + "(void)0;"))
        last = code
        seen.append(lines[i].strip())
        if found:
            nth = seen.count(seen[-1])
            yield [Change(path, i + 1, start, begin, nth, name, kind, lines[i], new)
                   for kind, new in dict((n, (k, n)) for k, n in found).values()]


def draw(files, random):
    """Yields changes of files at random, without repetition, until none is left.

    files: pairs of a path and its text. All lines have the same probability, and then all kinds of
    change that the line allows.
    """
    lines = [found for path, text in files for found in changes_of(path, text)]
    while lines:
        at = random.randrange(len(lines))
        kind = random.choice(sorted({c.kind for c in lines[at]}))
        change = random.choice([c for c in lines[at] if c.kind == kind])
        yield change
        lines[at] = [c for c in lines[at] if c is not change]
        if not lines[at]:
            lines.pop(at)


def unrun(files, covered):
    """Yields a change of each line that no program runs.

    files: as for draw(); covered: {(path, number of a line): programs that run it}.
    """
    for path, text in files:
        for found in changes_of(path, text):
            # gcov counts some lines of a statement only
            if not any(covered.get((path, i)) for i in range(found[0].start, found[0].line + 1)):
                yield found[0]
