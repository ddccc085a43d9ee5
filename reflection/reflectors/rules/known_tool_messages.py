"""Messages of tools, web APIs and browsers that have one cause. `{tool}` stands for the tool that answered so."""

from reflection.reflectors.rules.known_messages import known

OF_TOOLS = (
    known(
        r"maximum context length|context_length_exceeded|prompt is too long"
        r"|exceeds (?:the )?maximum allowed (?:tokens|size)|(?:response|output|result) (?:is |was )?too (?:large|long)",
        r"",
        "When about to call {tool} for something that may be very long",
        "Ask for a part of it: pass a limit, a range or a filter if {tool} takes one, and go on from there.",
        "Asking for the whole of it again.",
    ),
    known(
        r"(?i)too many requests|rate.?limit|RESOURCE_EXHAUSTED",
        r"",
        "When {tool} answers that there were too many requests",
        "Wait before the next call, as long as the answer says if it does, and ask for several things in one call. If "
        "it is refused again, say that the limit ended the work.",
        "Calling {tool} again at once.",
    ),
    known(
        r"not found in the current page snapshot|stale element reference|not attached to the (?:DOM|page document)",
        r"",
        "When about to act on an element of a page by a reference from an earlier look at it",
        "Look at the page again first, and take the reference from that: each change of the page ends the old ones.",
        "Using the same reference again.",
    ),
    known(
        r"strict mode violation",
        r"",
        "When about to name an element of a page in words that may fit several",
        "Name it so that a single one fits: by its role and exact label, or within the part of the page it stands in.",
    ),
    known(
        r"intercepts pointer events|is not clickable at point|element click intercepted",
        r"",
        "When about to click on a page on which a dialog or banner may lie over the rest",
        "Close what covers the element first, such as a dialog or a banner about cookies, then click.",
        "Clicking on the same element again.",
    ),
    known(
        r"(?i)no scheme supplied|missing schema|only absolute urls|unknown url type|invalid url",
        r"[\w-]{2,60}\.[a-z]{2,10}",
        "When about to give {tool} the address of a page",
        "Write it in full, with its scheme such as `https` in front.",
    ),
    known(
        r"(?i)\b405\b[^\n]{0,20}not allowed|method not allowed",
        r"",
        "When about to send a request with {tool} to an address whose methods no answer has shown",
        "Look up which method the address takes, in the documentation or the answer's `Allow`, and send that one.",
    ),
    known(
        r"(?i)unsupported media type",
        r"",
        "When about to send a body with {tool}",
        "Send it as JSON, and say so in the header `Content-Type`.",
    ),
    known(
        r"(?i)(?:must be|is not|requires|expected) an? absolute path",
        r"",
        "When about to give {tool} a path",
        "Give the whole path, from the root on: it takes no relative one.",
    ),
)
