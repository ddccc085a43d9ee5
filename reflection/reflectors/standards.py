"""Standards, versions and codes that everyone knows: they look like ids of one task, but are not."""

import re

_BODIES = (
    r"(?:ISO(?:[/ ]IEC)?|IEC|IEEE|RFC|BCP|PEP|DIN|EN|ANSI|ECMA|FIPS|NIST(?: SP)?|ITU-T|PCI DSS|SOC)[ -]?\d{1,6}"
    r"(?:[.: -]\d{1,4}){0,3}(?: ?(?:alpha-[23]|numeric|basic|extended)\b)?"
)
_ALGORITHMS = (
    r"(?:UTF|UCS|SHA|AES|RSA|DES|CRC|MD|HMAC-SHA|Latin|Windows|CP|TLS|SSL|OAuth|IPv|PKCS|HTTP|ES|RS|HS|PBKDF|Base|Ed"
    r"|Blake|Argon)[ /#.v-]?(?:\d{1,5}(?:[./-]\d{1,4}){0,2})(?:[a-z]{1,2}|LE|BE|-(?:GCM|CBC|CTR|LE|BE|BOM|sig))?"
    r"|[EX]\.\d{3}|P-\d{3}"
)
_PHRASES = (
    "(?:OK|Created|Accepted|No Content|Moved Permanently|Found|Not Modified|Bad Request|Unauthori[sz]ed"
    "|Payment Required|Forbidden|Not Found|Method Not Allowed|Not Acceptable|Conflict|Gone|Precondition Failed"
    "|Payload Too Large|Unsupported Media Type|Unprocessable (?:Entity|Content)|Too Many Requests"
    "|Internal Server Error|Not Implemented|Bad Gateway|Service Unavailable|Gateway Timeout)"
)
_STATUSES = (
    r"(?i:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?|error(?: code)?|errno|exit(?: code| status)?|signal|port)"
    rf"[ :=]{{1,2}}\[?-?\d{{1,5}}(?: {_PHRASES})?\b"
    rf"|[1-5]\d\d:? {_PHRASES}\b"
    r"|(?<![\w.#-])(?:4(?:0[0-9]|1[0-8]|2[2-9]|31|51)|50[0-8]|511)(?= (?:errors?|answers?|responses?|status)\b|:)"
    r"|\[?Errno -?\d{1,3}\]?"
)
# Letters that linters, compilers and databases put before a number. Besides "E", one letter needs a word or place of an
# error beside it: "W605" may be an order.
_CODES = (
    r"E\d{3,4}|(?:errors?|warnings?|rules?|codes?|noqa:) \[?[A-Z]\d{3,4}|(?<=\d: )[A-Z]\d{3,4}"
    r"|(?:PL[CERW]|SIM|ANN|ARG|PTH|RUF|ERA|DTZ|UP|TS|CS|SC|DL|MD|MSB|LNK|BC|NU|NETSDK|CA|IDE|CWE|CAPEC|ORA|PLS|TNS"
    r"|PGRST|AADSTS|SQLCODE)[ :=-]?\d{2,7}"
    r"|[A-Z]\d{3,4}(?=:? \w{0,40}(?:Error|Warning)\b)"
    r"|CVE-\d{4}-\d{4,7}|GHSA(?:-[a-z0-9]{4}){3}|0x8\d{3}[0-9A-Fa-f]{4}|SQLSTATE[ :=[]{0,2}[0-9A-Z]{5}\b"
)
_VERSIONS = (
    r"(?:Python|Node(?:\.js)?|Java|JDK|JavaScript|TypeScript|Rust|Ruby|PHP|Perl|Kotlin|Swift|Scala|Go|PostgreSQL|Postgres"
    r"|MySQL|MariaDB|SQLite|SQL|Oracle|MongoDB|Redis|Django|Flask|FastAPI|React|Vue|Angular|Spring|Rails|Laravel"
    r"|Kubernetes|Docker|Terraform|Ubuntu|Debian|Fedora|Alpine|CentOS|RHEL|Windows|macOS|iOS|Android|Linux|OpenAPI"
    r"|Swagger|OpenSSL|GraphQL|JSON Schema|HTML|CSS|XML|YAML|draft-?|GPT|Claude|Gemini|Llama|pandas|NumPy|Pydantic"
    r"|SQLAlchemy|TensorFlow|PyTorch|CUDA|Excel|Word|USB|Bluetooth|Bash|PowerShell|\.NET|C|npm|pip|Git|API|versions?)"
    r"(?:\+\+)?[ /-]?v?\d{1,5}(?:[.-]\d{1,4}){0,3}(?:\.x)?\+?"
    r"|v\d{1,3}(?:\.\d{1,4}){0,3}"
)
# "24-hour", "3-letter", "0-based"; "x86_64", "utf8mb4" and other names with digits of formats and programs.
_WORDS = (
    r"\d{1,4}-(?:[a-z]{3,20})(?:-[a-z]{3,20})?"
    r"|x86(?:_64)?|amd64|arm64|aarch64|win(?:32|64)|u?int(?:8|16|32|64)|float(?:16|32|64)|utf8mb4|utf(?:8|16|32)"
    r"|base(?:32|58|64|85)|sha(?:1|224|256|384|512)|md5|crc32|oauth2|ipv[46]|h26[45]|mp[34]|k8s|i18n|l10n|a11y|log4j"
    r"|sqlite3|boto3|urllib3|psycopg[23]|jinja2|neo4j|lua5|python[23]|pip[23]|ed25519|secp256k1|argon2(?:id?)?"
    r"|pbkdf2|bcrypt|web3|s3|ec2|oauth1|lz4|bzip2|7z|7zip"
)
_STANDARD = re.compile(rf"(?<![\w-])(?:{_BODIES}|{_ALGORITHMS}|{_STATUSES}|{_CODES}|{_VERSIONS})(?![\w-]|\.\d)")
_LOWER_CASE = re.compile(rf"(?<![\w-])(?:{_WORDS})(?![\w-]|\.\d)", re.I)


def find_standards(text: str) -> list[tuple[int, int]]:
    """Return where standards, versions and codes stand in a text: start and end of each, in order."""
    return sorted(match.span() for pattern in (_STANDARD, _LOWER_CASE) for match in pattern.finditer(text))


def without_standards(text: str) -> str:
    """Return a text with a space in the place of each standard, version and code."""
    return _LOWER_CASE.sub(" ", _STANDARD.sub(" ", text))
