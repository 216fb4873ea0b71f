"""Patterns that tell tags from text exactly as an HTML tokeniser does, in linear time."""

import re

SPACE = r" \t\n\f\r"  # `\s` matches more characters than HTML has white space
MAX_RUN = 8_000

_NAME = rf"[^{SPACE}/>][^{SPACE}/>=]"
_BARE = rf"[^{SPACE}>\"'][^{SPACE}>]"  # a value without quotes
_EQUALS = rf"[{SPACE}]*+=[{SPACE}]*+"

_VALUE = rf"""(?:{_EQUALS}(?:"[^"]*+"|'[^']*+'|{_BARE}*+)?+)?+"""
_TAG = rf"([a-zA-Z][^{SPACE}/>]*+)((?:[{SPACE}/]++|{_NAME}*+{_VALUE})*+)(?:>|\Z)"
# A start tag (its name and its attributes), a comment, or other markup: an end tag, a doctype or CDATA.
MARKUP = re.compile(rf"<(?:{_TAG}|!--(?:-?>|.*?(?:--!?>|\Z))|[!?/][^>]*+)", re.DOTALL)
# An attribute: its name, and its value in double quotes, in single quotes or without quotes.
ATTRIBUTE = re.compile(rf"""({_NAME}*+)(?:{_EQUALS}(?:"([^"]*+)"|'([^']*+)'|({_BARE}*+))?+)?+""")
# The content of these elements is text, even if it looks like markup.
RAW_TEXT = frozenset(["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"])
_RAW_ENDS = {name: re.compile(rf"</{name}(?=[{SPACE}/>])", re.IGNORECASE) for name in RAW_TEXT}
_IN_SCRIPT = re.compile(rf"<!--|-->|<(/?)script(?=[{SPACE}/>])", re.IGNORECASE)


def build_many_attributes(number: int) -> re.Pattern[str]:
    """Return a pattern that finds every start tag with more than `number` attributes.

    It also finds some text that only looks like such a tag, and tags with a name or value of more than `MAX_RUN`
    characters: reading those to their end from each "<" in them would take quadratic time.
    """
    run = f"{{0,{MAX_RUN}}}+"
    value = rf"""(?:"[^"]{run}"|'[^']{run}'|{_BARE}{run}|(?=>))"""
    attribute = rf"""(?!=[{SPACE}]*+["']){_NAME}{run}(?:{_EQUALS}{value})?+"""
    gap = rf"[{SPACE}/]*+"
    return re.compile(rf"<[a-zA-Z][^{SPACE}/>]{run}(?:{gap}{attribute}){{0,{number}}}+{gap}[^{SPACE}/>]")


def find_raw_end(name: str, text: str, start: int) -> int:
    """Return where the content of an element in `RAW_TEXT` ends."""
    if name == "script":
        return _find_script_end(text, start)
    found = _RAW_ENDS[name].search(text, start)
    return found.start() if found else len(text)


def _find_script_end(text: str, start: int) -> int:
    """Return the end of a script. In a comment, a second script may begin and end."""
    in_comment = in_second = False
    while (found := _IN_SCRIPT.search(text, start)) is not None:
        start = found.end()
        if found[1] is None:
            in_comment, in_second = found[0] == "<!--", in_second and found[0] == "<!--"
            start -= 2 if in_comment else 0  # "<!-->" begins and ends a comment
        elif found[1] == "":
            in_second = in_comment
        elif in_second:
            in_second = False
        else:
            return found.start()
    return len(text)
