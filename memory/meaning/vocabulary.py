"""The words that decide what advice says: those that turn it around or limit it, opposites, and synonyms.

English is known best. Of German, Spanish and French only the small words are known; they are read as English ones.
"""

from collections.abc import Iterator

# What is said in several words, said in one. The longest is taken first.
_PHRASES = """
    keep this from happening again=always | pull request=pr | merge request=pr | in the next trial=always
    in the next attempt=always | in the next run=always | on the next attempt=always | no longer=not
    there is no need to=not | no need to=not | not need to=not | need not=not | not have to=not | not necessary to=not
    unnecessary to=not | a mistake to=not | mistake was to=not | wrong to=not | not forget to=remember
    never forget to=remember | not fail to=remember | never fail to=remember | make sure that=ensure
    make sure to=ensure | make sure=ensure | be sure to=ensure | in order to=to | so as to=to | refrain from=avoid
    fail to=not | fails to=not | failed to=not | unable to=not able to | forget to=not | forgot to=not | refuse to=not
    decline to=not | stop short of=not | leave out=omit | left out=omit | instead of=instead | rather than=instead
    in place of=instead | in lieu of=instead | as opposed to=instead | not only=also | no matter=evenif
    regardless of=evenif | whatever=evenif | even if=evenif | even when=evenif | even though=evenif | only if=only if
    only when=only if | only after=after | only once=once | prior to=before | ahead of=before | when about to=before
    when you are about to=before | if you are about to=before | when i am about to=before | as soon as=once
    right after=after | following that=then | after that=then | after this=then | and only then=then | and then=then
    as long as=if | in case=if | provided that=if | each time=if | every time=if | any time=always | next time=always
    in the future=always | in future=always | from now on=always | apart from=except | other than=except
    aside from=except | except for=except | any day but=except | with the exception of=except | all but=except
    at least=≥ | no less than=≥ | no fewer than=≥ | not less than=≥ | not fewer than=≥ | or more=≥ | or higher=≥
    or later=≥ | or above=≥ | a minimum of=≥ | or equal to=or-equal | or equal=or-equal | at most=≤ | no more than=≤
    not more than=≤ | up to=≤ | or less=≤ | or fewer=≤ | or lower=≤ | or below=≤ | a maximum of=≤ | no later than=≤
    not later than=≤ | within=≤ | in the first=≤ | in the last=≤ | more than=> | greater than=> | higher than=>
    larger than=> | bigger than=> | longer than=> | older than=> | less than=< | fewer than=< | lower than=<
    smaller than=< | shorter than=< | newer than=< | younger than=< | equal to=exactly | turn on=enable
    turned on=enable | switch on=enable | turn off=disable | turned off=disable | switch off=disable | look at=check
    look up=check | looked at=check | looked up=check | looking at=check | looking up=check | look into=check
    find out=check | work out=compute | hand over=transfer | call off=cancel | called off=cancel | set up=install
    back up=backup | backed up=backup | backing up=backup | roll back=rollback | log in=login | sign in=login
    log out=logout | sign out=logout | try again=retry | tried again=retry | trying again=retry | money back=refund
    pay back=refund | paid back=refund | at once=immediately | right away=immediately | straight away=immediately
    in stock=stock | most recent=newest | by hand=manually | half a=0.5 | half an=0.5 | let the user know=tell user
    let the customer know=tell customer | more expensive than=> | more expensive=costlier | most expensive=costliest
    least expensive=cheapest | e mail=email | for sure=surely | one at a time=onebyone | one by one=onebyone
    so that=because | otherwise=because | or else=because | as well=also | of course=surely | a couple of=2
    a dozen=12 | unknown to=not known to | is unknown=is not known | not at hand=not known
"""

# Function words of other languages, as English ones.
_FOREIGN = {
    "de": """
        nicht=not | nie=never | niemals=never | kein=no | keine=no | keinen=no | keinem=no | keiner=no
        nichts=nothing | ohne=without | bevor=before | ehe=before | vor=before | nachdem=after | nach=after
        erst=first | zuerst=first | dann=then | danach=then | bis=until | nur=only | sogar=even | wenn=if | falls=if
        sobald=once | außer=except | ausser=except | statt=instead | anstatt=instead | immer=always | alle=all
        alles=all | allen=all | jede=each | jeden=each | jeder=each | einige=some | manchmal=sometimes | und=and
        oder=or | sondern=but | aber=but | mindestens=≥ | höchstens=≤ | genau=exactly | über=over | unter=under
        der=the | die=the | das=the | den=the | dem=the | des=the | ein=a | eine=a | einen=a | du=you | sie=you
        ist=is | wird=is | werden=be | von=of | mit=with | zu=to | zum=to | zur=to | für=for | vermeide=avoid
        vermeiden=avoid | kann=can | muss=must | darf=may
    """,
    "es": """
        no=not | nunca=never | jamás=never | sin=without | antes=before | después=after | luego=then | primero=first
        hasta=until | solo=only | sólo=only | solamente=only | incluso=even | si=if | cuando=if | excepto=except
        salvo=except | siempre=always | todos=all | todas=all | todo=all | cada=each | algunos=some | algunas=some
        y=and | o=or | pero=but | sino=but | exactamente=exactly | el=the | la=the | los=the | las=the | un=a | una=a
        es=is | de=of | del=of | con=with | en=in | para=for | que=that | al=to | se=it | evita=avoid | evitar=avoid
        puede=can
    """,
    "fr": """
        ne= | pas=not | jamais=never | aucun=no | aucune=no | sans=without | avant=before | après=after | puis=then
        ensuite=then | abord=first | seulement=only | uniquement=only | même=even | si=if | quand=if | lorsque=if
        sauf=except | toujours=always | tous=all | toutes=all | tout=all | chaque=each | quelques=some | et=and
        ou=or | mais=but | exactement=exactly | le=the | la=the | les=the | l=the | d= | un=a | une=a | des=some
        est=is | de=of | du=of | avec=with | dans=in | en=in | pour=for | que=that | au=to | aux=to | évite=avoid
        éviter=avoid | peut=can | vous=you | tu=you
    """,
}

# Words for the same; the first stands for all.
_SYNONYMS = """
    check verify validate inspect examine consult review ensure see view read confirm | user customer caller guest
    reservation booking book | change modify update alter edit amend | cancel cancellation | delete remove erase drop
    price cost | choose select pick | search look find | additional extra further | whole entire complete full
    newest latest | tell inform notify say answer reply respond | ask request inquire
    call use invoke run execute apply | begin start launch | error failure exception | fix repair correct
    attempt try | retry resend | buy purchase | email mail | folder directory | install setup
    stock inventory availability available | refund reimburse reimbursement | transfer pass escalate hand
    compute calculate | keep retain preserve | show display | human person | backup dump snapshot | migrate migration
    deploy deployment release rollout | put place | gather collect | manually manual | each every | big large
    small little | immediately instantly | ship shipment dispatch | deliver delivery | bill billing invoice
    charge debit | colour color | sort order | honour honor | specific particular | expand widen | handle treat
    alternative another | depart departure leave | include inclusive | close resolve | limit cap
    identify identification identity | authenticate login | document documentation doc | message note
    rename renaming | pay payment | insert add | luggage baggage bag | certificate voucher | traceback stacktrace
    command cmd | parameter argument param | verdict result outcome
"""

# Groups of which a text has one or the other: two texts that differ in it say the opposite, or something else.
_OPPOSITES = """
    first last | first second third fourth fifth | left right | up down | in out | on off | above below | over under
    top bottom | front back | start end | begin finish | open close | lock unlock | ascending descending | asc desc
    increase decrease | raise lower | grow shrink | maximum minimum | max min | most least | highest lowest | high low
    higher lower | more less | more fewer | longer shorter | long short | larger smaller | largest smallest
    big small | older newer | oldest newest | old new | earlier later | earliest latest | early late
    cheapest costliest | cheap expensive | cheaper costlier | true false | yes no | even odd | positive negative
    add remove | add subtract | keep delete | keep empty | keep drop | keep discard | create delete | include exclude
    accept reject | allow forbid | allow deny | permit prohibit | approve reject | approve deny | grant revoke
    enable disable | encode decode | encrypt decrypt | compress decompress | import export | upload download
    push pull | read write | send receive | buy sell | refund charge | show hide | public private | internal external
    inside outside | inner outer | local remote | global local | synchronous asynchronous | sync async
    static dynamic | manual automatic | manually automatically | known unknown | required optional
    mandatory optional | same different | present absent | present missing | full empty | full partial
    complete incomplete | valid invalid | visible hidden | online offline | domestic international | economy business
    outbound return | arrival departure | sender recipient | source target | source destination | input output
    parent child | client server | primary replica | primary secondary | staging production | development production
    single multiple | single double | previous next | together separately | all some | all none | all most | all any
    all no | each no | each some | both either | both neither | either neither | any no | some no | only even
    only except | except include | always sometimes | always rarely | immediately later | upper lower
    uppercase lowercase | inclusive exclusive | horizontal vertical | row column | width height | north south
    east west | win lose | warm cold | come go | hot cold | heat cool | fast slow | plain encrypted | succeed fail
    success failure | pass fail | merge split | join leave | attach detach | mount unmount | connect disconnect
    load unload | install uninstall | subscribe unsubscribe | commit rollback | credit debit | sequential parallel
    monday tuesday wednesday thursday friday saturday sunday | morning afternoon evening night | day night
    january february march april june july august september october november december | adult child | north south
    gold silver | restart leave | pending delivered | leftmost rightmost | prepend append | greater smaller
    maximise minimise | maximize minimize | best worst | strict lenient | quote unquote | escape unescape
    freeze unfreeze | block unblock | archive restore | expand collapse | serial parallel | lazy eager
    mutable immutable | signed unsigned | safe unsafe | secure insecure
"""

# Verbs that say not to do what the other says.
_COUNTERS = """
    disable=enable | disallow=allow | forbid=allow | prohibit=allow | deny=allow | reject=accept | exclude=include
    omit=include | exclusive=include
"""

# What says no, and the clauses that small words begin.
_NEGATIONS = """
    not never no nothing none neither nor avoid skip cannot without hardly rarely nobody non
"""
NEGATIONS = frozenset(_NEGATIONS.split())
_ORDERS = """
    before after until without then once
"""
ORDERS = frozenset(_ORDERS.split())
_LINKS = """
    if when unless while whenever instead except but because
"""
LINKS = ORDERS | frozenset(_LINKS.split())
_QUANTIFIERS = """
    only even evenif except all any each some both either most sometimes usually often may
"""
QUANTIFIERS = frozenset(_QUANTIFIERS.split())
_WHOLE = """
    all any each
"""
WHOLE = frozenset(_WHOLE.split())  # they say no more than the plural does
_STOP = """
    the a an of to is are be been being was were am do does did has have had having it its this that these those there
    here you your yours i my me we our us they their them he his she her him for in at by with from into onto as so such
    and or will would shall should can could must need needs needed also always just very too please now still yet who
    which what where how why during while per via about over under on if when because but ensure remember
    again same able get gets got go going let lets make makes made want wants really simply
    surely properly correctly already thing something done any each first instead one
"""
# Words that advice may have or lack without saying something else.
_LIGHT = """
    call user agent important good best idea attempt trial wait item function time please obtain someone somebody
    anyone
"""
LIGHT = frozenset(_LIGHT.split())
_LIGHTER = """
    ask put take keep set write answer give perform whole pay limit say
"""
LIGHTER = LIGHT | frozenset(_LIGHTER.split())
STOP = frozenset(_STOP.split()) | NEGATIONS | LINKS | QUANTIFIERS

_UNITS = """
    s=s*1 sec=s*1 second=s*1 min=s*60 minute=s*60 h=s*3600 hr=s*3600 hour=s*3600 stunde=s*3600 d=s*86400 day=s*86400
    tag=s*86400 week=s*604800 ms=s*0.001 millisecond=s*0.001 month=month*1 year=month*12 b=B*1 byte=B*1 kb=B*1e3
    mb=B*1e6 gb=B*1e9 tb=B*1e12 kib=B*1024 mib=B*1048576 gib=B*1073741824 %=%*1 percent=%*1 €=€*1 eur=€*1
    euro=€*1 $=$*1 usd=$*1 dollar=$*1 £=£*1 gbp=£*1 pound=£*1 m=m*1 metre=m*1 meter=m*1 km=m*1000 cm=m*0.01
    mile=mile*1 g=g*1 kg=g*1000
"""
UNITS = {
    name: (unit, float(factor))
    for name, _, said in (each.partition("=") for each in _UNITS.split())
    for unit, _, factor in (said.partition("*"),)
}
NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    )
} | {"twice": "2", "thrice": "3", "half": "0.5", "single": "1"}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.replace("\n", "|").split("|"):
        phrase, equals, meant = pair.strip().partition("=")
        if equals:
            yield phrase, meant


PHRASES = dict(_pairs(_PHRASES))
FOREIGN = {language: dict(_pairs(words)) for language, words in _FOREIGN.items()}
COUNTERS = dict(_pairs(_COUNTERS.replace(" ", "").replace("|", "\n")))
SYNONYMS = {
    word: group.split()[0] for line in _SYNONYMS.split("\n") for group in line.split("|") for word in group.split()
}
OPPOSITES = [frozenset(line.split()) for line in _OPPOSITES.replace("|", "\n").splitlines() if line.strip()]
OPPOSED = {
    word: [place for place, group in enumerate(OPPOSITES) if word in group] for word in frozenset().union(*OPPOSITES)
}
