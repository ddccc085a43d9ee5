-- What searches need besides vectors of meaning: texts as vectors of their words; names of tools, files and errors; and
-- tokens that tell whether what a project serves has changed.

-- Vectors follow their revision into and out of what agents may be given.
CREATE OR REPLACE FUNCTION memory_revision_serve() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_heuristicembedding SET served = NEW.live WHERE revision_id = NEW.id AND served <> NEW.live;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_serve AFTER UPDATE ON memory_heuristicrevision
    FOR EACH ROW WHEN (OLD.live IS DISTINCT FROM NEW.live) EXECUTE FUNCTION memory_revision_serve();

-- Whether a reviewer approved this task, known by its hash, with the lesson: it is the task that the wording names, or
-- that of approved evidence. What a client records later makes a lesson no easier to find until someone has seen it.
CREATE OR REPLACE FUNCTION memory_task_is_approved(of_revision uuid, run uuid, sha256 text) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM memory_heuristicrevision r JOIN memory_evidence e USING (heuristic_id)
        WHERE r.id = of_revision AND e.trajectory_id = run AND e.approved_at IS NOT NULL
    ) OR EXISTS (
        SELECT FROM memory_heuristicrevision r
        WHERE r.id = of_revision AND encode(sha256(convert_to(r.source_task, 'UTF8')), 'hex') = $3
    ) OR EXISTS (
        SELECT FROM memory_heuristicrevision r JOIN memory_evidence e USING (heuristic_id)
        JOIN memory_trajectory t ON t.id = e.trajectory_id
        WHERE r.id = of_revision AND e.approved_at IS NOT NULL
            AND encode(sha256(convert_to(t.task, 'UTF8')), 'hex') = $3)
$$;

CREATE OR REPLACE FUNCTION memory_embedding_serve() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- FOR SHARE waits for an approval under way, so that a vector cannot miss it.
    SELECT live INTO NEW.served FROM memory_heuristicrevision WHERE id = NEW.revision_id FOR SHARE;
    IF NEW.served AND NEW.kind = 'source_task' THEN
        NEW.served := memory_task_is_approved(NEW.revision_id, NEW.trajectory_id, NEW.text_sha256);
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_embedding_serve BEFORE INSERT OR UPDATE OF served, revision_id
    ON memory_heuristicembedding FOR EACH ROW EXECUTE FUNCTION memory_embedding_serve();

-- The tasks of evidence come into service when it is approved, or copied by a merge that was, and go when an undo takes
-- that back or the evidence is gone.
CREATE OR REPLACE FUNCTION memory_evidence_approved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE memory_heuristicembedding e SET served = r.live
    FROM memory_heuristicrevision r
    WHERE r.id = e.revision_id AND r.live AND e.kind = 'source_task'
        AND e.heuristic_id IN (SELECT heuristic_id FROM changed WHERE TG_OP = 'UPDATE' OR approved_at IS NOT NULL);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_evidence_approved AFTER UPDATE ON memory_evidence
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory_evidence_approved();
CREATE OR REPLACE TRIGGER memory_evidence_added AFTER INSERT ON memory_evidence
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory_evidence_approved();
CREATE OR REPLACE TRIGGER memory_evidence_gone AFTER DELETE ON memory_evidence
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION memory_evidence_approved();

-- The language of a text: by its script or, in the Latin script, by its common short words that are not English. All
-- else is English, since names, commands and short questions have no such words. A letter of another script counts three
-- times, since a Chinese character says as much as three Latin letters and names of tools take up much of a short text.
CREATE OR REPLACE FUNCTION memory_language(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN foreign_letters <> '' AND 3 * length(foreign_letters) >= length(latin_letters) THEN (
            SELECT CASE
                WHEN script = 'han' AND foreign_letters ~ '[\u3040-\u30ff]' THEN 'japanese'
                WHEN script = 'han' THEN 'chinese'
                WHEN script = 'arabic' AND foreign_letters ~ '[\u067e\u0686\u0698\u06a9\u06af\u06cc]' THEN 'persian'
                ELSE script END
            FROM (VALUES ('han', regexp_count(foreign_letters, '[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]')),
                         ('korean', regexp_count(foreign_letters, '[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]')),
                         ('russian', regexp_count(foreign_letters, '[\u0400-\u052f]')),
                         ('arabic', regexp_count(foreign_letters, '[\u0600-\u077f\u08a0-\u08ff]')),
                         ('hindi', regexp_count(foreign_letters, '[\u0900-\u097f]')),
                         ('thai', regexp_count(foreign_letters, '[\u0e00-\u0e7f]')),
                         ('greek', regexp_count(foreign_letters, '[\u0370-\u03ff\u1f00-\u1fff]')),
                         ('hebrew', regexp_count(foreign_letters, '[\u0590-\u05ff]')),
                         ('armenian', regexp_count(foreign_letters, '[\u0530-\u058f]')),
                         ('tamil', regexp_count(foreign_letters, '[\u0b80-\u0bff]')),
                         ('other', 1)) AS scripts (script, letters)
            ORDER BY letters DESC, script LIMIT 1)
        WHEN latin_letters = '' THEN 'other'  -- no word at all, such as an emoji
        -- Nearly all questions are English and are not counted by language. Words that code and commands have too (`del`
        -- in Python, `x, y`, `du -sh`, the time zone EST) decide only between two other words.
        WHEN words !~ '[\u00a1\u00bf\u00df-\u024f\u1e00-\u1eff]|\m(?:der|das|und|nicht|ist|ein|eine|einen|dem|wenn|ich|wird|werden|zu|wie|wer|bei|vom|zum|zur|wir|sie|bitte|mein|meine|kann|welche|welches|aus|auf|vor|el|los|las|una|que|por|para|como|pero|cuando|mis?|sus?|les|une|dans|avec|qui|sur|pas|je|il|um|uma|della|che|sono|het|een|niet|voor|och|att|som|inte|og|til|ikke|jeg|ja|ei|egy|nem|bir|yang|dan|untuk|tidak|dengan|seit|wegen|jede|jeden|jeder|mir|mich|sich|weshalb|worum|wieso|warum|weil|von|gegen|yo|con|porque|sobre|cada|todas|todos|tiene|nie|jest|jak|jaka|jaki|jakie|czy|przez|oraz|ile|kolik|nebo|jsou|kako|kakvo|kakva|koji|koja|koje|nije|ili|koliko|ang|mga|ano|paano|bakit|ako|kung|kwa|kuhusu|katika|jinsi|nini|hii|kwenye|gani|kaip|kiek|kuidas|quin|quina|amb|dels|dhe|nuk|hvernig|ekki|waarom|wanneer)\M|[[:alnum:]] (?:y|del|du|des|est|ne|et|en|em|di|cu|ve|bu|dat) [[:alnum:]]{2}'
            THEN 'english'
        ELSE (
            SELECT language
            FROM (VALUES
                ('english', regexp_count(words, '\m(?:the|of|and|to|in|is|for|that|with|on|this|are|be|you|it|when|if|not|from|or|my|i|we|what|how|do|does|did|a|as|at|by|has|have|were|will|me|your|can|please|about|any|some|but|so|there|would|which|who|why|before|after|then|all|each)\M')),
                ('german', regexp_count(words, '\m(?:der|die|das|und|nicht|ist|ein|eine|einen|einem|einer|für|mit|auf|den|dem|im|von|vom|wenn|ich|wir|wird|werden|zu|zum|zur|sie|oder|wie|kann|bitte|vor|nach|auch|als|bei|nur|noch|aus|es|mein|meine|sich|dann|ohne|soll|muss|hat|sind|wer|wo|was|wann|warum|wieso|welche|welcher|welches|ihr|euch|uns|er|beim|so|hier|schon|habe|ins|gegen|über|unter|man|keine|kein|eines|jetzt|wurde|geht|gibt|erst|seit|wegen|jede|jeden|jeder|mir|mich|weshalb|worum|einfach|ganz|steht|um|an|am|drei|ihnen|ihm|du|dir|weil|manche)\M')),
                ('spanish', regexp_count(words, '\m(?:el|la|los|las|una|un|que|de|del|por|para|con|no|se|es|está|como|pero|mi|su|al|cuando|antes|puede|más|y|o|en|lo|le|si|sin|ya|hay|me|son|esta|este|sus|qué|cómo|cuándo|cuánto|cuántos|quién|dónde|cuál|ha|han|te|nos|os|fue|muy|solo|hasta|desde|hace|ser|mis|tengo|puedo|ese|esa|e|entre|tu|yo|cada|todas|todos|todo|tiene|tienen|vez|eso|donde|va|van|da|sobre|porque)\M') + 2 * regexp_count(words, '[\u00a1\u00bf]')),
                ('french', regexp_count(words, '\m(?:le|la|les|des|du|de|une|un|est|et|pour|dans|avec|que|qui|sur|pas|ne|plus|au|aux|ce|cette|mon|ma|votre|vous|je|il|en|ou|si|se|sans|avant|par|sont|quand|être|quel|quelle|quels|comment|pourquoi|où|quand|nous|ils|sa|son|ses|leur|mais|aussi|à|dès|fait|ont|été|suis|elle|on)\M')),
                ('portuguese', regexp_count(words, '\m(?:o|os|as|um|uma|que|não|de|do|da|dos|em|para|com|por|se|é|como|mais|seu|sua|no|na|ao|antes|quando|e|foi|sem|está|meu|minha|qual|quais|onde|porque|ele|ela|eu|nos|nas|pelo|pela|mas|já|são|foram|ser|tem|isso|esta|este|à)\M')),
                ('italian', regexp_count(words, '\m(?:il|lo|gli|una|un|che|di|del|della|dei|per|con|non|è|sono|come|nel|alla|e|la|le|si|prima|quando|da|ha|se|mio|mia|quale|quali|dove|perché|i|al|ai|dal|nella|sul|mi|ma|anche|io|ho|hai|questo|questa|essere|stato|in|su)\M')),
                ('dutch', regexp_count(words, '\m(?:de|het|een|en|van|niet|dat|voor|met|op|te|is|zijn|als|bij|om|ik|wordt|naar|je|er|mijn|kan|ook|dan|aan)\M')),
                ('swedish', regexp_count(words, '\m(?:och|att|det|som|en|ett|är|på|för|med|av|inte|den|om|jag|kan|när|till|från|har|vi)\M')),
                ('danish', regexp_count(words, '\m(?:og|at|det|som|en|et|er|på|for|med|af|ikke|den|om|jeg|kan|når|til|fra|har|vi)\M')),
                ('norwegian', regexp_count(words, '\m(?:og|å|det|som|en|et|er|på|for|med|av|ikke|den|om|jeg|kan|når|til|fra|har|vi)\M')),
                ('finnish', regexp_count(words, '\m(?:ja|on|ei|että|se|kun|jos|niin|mutta|tai|ennen|ole|voi|myös)\M')),
                ('hungarian', regexp_count(words, '\m(?:a|az|egy|és|nem|hogy|ha|is|van|meg|csak|vagy|mint)\M')),
                ('romanian', regexp_count(words, '\m(?:și|nu|cu|de|la|un|o|este|în|pe|să|din|care|pentru|dacă)\M')),
                ('turkish', regexp_count(words, '\m(?:ve|bir|bu|için|ile|de|da|ne|mi|olarak|önce|değil|var)\M')),
                ('indonesian', regexp_count(words, '\m(?:yang|dan|untuk|tidak|dengan|di|ke|dari|ini|itu|atau|jika|saya|sebelum)\M')),
                -- Languages without a stemmer, as Polish, Czech, Croatian, Vietnamese, Catalan, Tagalog and Swahili: by
                -- words with a letter that those above do not have, little words, or else by accents alone.
                ('other', regexp_count(words, '[\u00f0\u00fe\u0101\u0105-\u011d\u0121-\u012f\u0133-\u014f\u0155-\u015d\u0161\u0165-\u016f\u0173-\u017f\u01a1\u01b0\u0259\u1ea1-\u1ef9]\w*')
                    + regexp_count(words, '\m(?:nie|jest|jak|jaka|jaki|jakie|czy|przez|oraz|ile|kolik|nebo|jsou|kako|kakvo|kakva|koji|koja|koje|nije|ili|koliko|ang|mga|ano|paano|bakit|ako|kung|kwa|kuhusu|katika|jinsi|nini|hii|kwenye|gani|kaip|kiek|kuidas|quin|quina|amb|dels|dhe|nuk|hvernig|ekki|waarom|wanneer|què|els|aquesta?|jaké|jaký|chcę|proszę|što|zašto|për|është)\M')
                    + least(regexp_count(words, '[\u00df-\u024f\u1e00-\u1eff]\w*') / 2, 1))
            ) AS languages (language, hits)
            -- Among equals English, unless there are accents
            ORDER BY hits DESC, (language = 'english') = (hits > 0 AND words ~ '[\u00df-\u024f\u1e00-\u1eff]'),
                     language = 'other', language LIMIT 1)
        END
    FROM (SELECT CASE WHEN octet_length(start) > length(start) THEN regexp_replace(start, '[\u0001-\u036f\u1e00-\u1eff\u2000-\u303f\ufe00-\uffff\U0001f000-\U000e01ef]+', '', 'g')
                 ELSE '' END AS foreign_letters,
                 CASE WHEN octet_length(start) > length(start)
                 THEN regexp_replace(start, '[^A-Za-z\u00c0-\u024f\u1e00-\u1eff]+', '', 'g') END AS latin_letters,
                 lower(start COLLATE "pg_c_utf8") AS words
          FROM (SELECT CASE WHEN octet_length(body) > length(body) THEN normalize(left(body, 4000), NFC)
                       ELSE left(body, 4000) END AS start) AS text) AS letters
$$;

-- Whether a text is more than plain English, so that its words are found by the rules of other languages, too.
CREATE OR REPLACE FUNCTION memory_is_foreign(body text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT octet_length(body) > length(body) OR memory_language(body) <> 'english'
$$;

-- The stem of a word in small letters; NULL for a word that its language has in every text. The script decides, and in
-- the Latin one the language of the text. What has a digit in it is a code and stays as it is.
CREATE OR REPLACE FUNCTION memory_stem(word text, language text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN word ~ '[0-9]' THEN word
        WHEN word ~ '^[\u0400-\u052f]' THEN (ts_lexize('pg_catalog.russian_stem', word))[1]
        WHEN language = 'persian' THEN word
        WHEN word ~ '^[\u0600-\u077f]' THEN (ts_lexize('pg_catalog.arabic_stem', word))[1]
        WHEN word ~ '^[\u0900-\u097f]' THEN (ts_lexize('pg_catalog.hindi_stem', word))[1]
        WHEN word ~ '^[\u0370-\u03ff\u1f00-\u1fff]' THEN (ts_lexize('pg_catalog.greek_stem', word))[1]
        WHEN word ~ '^[\u0530-\u058f]' THEN (ts_lexize('pg_catalog.armenian_stem', word))[1]
        WHEN word ~ '^[\u0b80-\u0bff]' THEN (ts_lexize('pg_catalog.tamil_stem', word))[1]
        ELSE CASE language
            WHEN 'german' THEN (ts_lexize('pg_catalog.german_stem', word))[1]
            WHEN 'spanish' THEN (ts_lexize('pg_catalog.spanish_stem', word))[1]
            WHEN 'french' THEN (ts_lexize('pg_catalog.french_stem', word))[1]
            WHEN 'portuguese' THEN (ts_lexize('pg_catalog.portuguese_stem', word))[1]
            WHEN 'italian' THEN (ts_lexize('pg_catalog.italian_stem', word))[1]
            WHEN 'dutch' THEN (ts_lexize('pg_catalog.dutch_stem', word))[1]
            WHEN 'swedish' THEN (ts_lexize('pg_catalog.swedish_stem', word))[1]
            WHEN 'danish' THEN (ts_lexize('pg_catalog.danish_stem', word))[1]
            WHEN 'norwegian' THEN (ts_lexize('pg_catalog.norwegian_stem', word))[1]
            WHEN 'finnish' THEN (ts_lexize('pg_catalog.finnish_stem', word))[1]
            WHEN 'hungarian' THEN (ts_lexize('pg_catalog.hungarian_stem', word))[1]
            WHEN 'romanian' THEN (ts_lexize('pg_catalog.romanian_stem', word))[1]
            WHEN 'turkish' THEN (ts_lexize('pg_catalog.turkish_stem', word))[1]
            WHEN 'indonesian' THEN (ts_lexize('pg_catalog.indonesian_stem', word))[1]
            ELSE (ts_lexize('pg_catalog.english_stem', word))[1]
        END
    END
$$;

-- Whether a word is of a script that puts no spaces between words (Thai to Khmer, Han, Kana), or of Korean, which adds
-- endings to them. Such words are compared by their pairs of neighbouring characters; those of Thai to Khmer by threes,
-- since their letters are few, and nearly all pairs are in any longer text.
CREATE OR REPLACE FUNCTION memory_is_paired(word text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT ascii(word) BETWEEN 3584 AND 6143 OR ascii(word) >= 12288
$$;

-- The words of a text that is not plain English. It is read in its compatible composed form, so that é is é however it
-- was typed and ＡＰＩ is API; digits of other scripts are digits. Punctuation of all scripts separates words, and so does
-- a change between a script without spaces and another one. Little words are left out: those of Chinese, Arabic, Hindi
-- and Russian questions here, those that PostgreSQL's stemmers know there, and pairs of Hiragana, which are endings.
-- Texts and words are cut, and what has no spaces is read in pieces of 64: to take a part of a long text costs as much as
-- the text is long, so that a page without spaces would take seconds.
CREATE OR REPLACE FUNCTION memory_foreign_words(body text, language text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 60 AS $$
    WITH pieces AS (
        SELECT regexp_split_to_table(lower(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
            translate(normalize(replace(left(body, 20000), '№', ' '), NFKC),
                '٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹०१२३४५६७८९', '012345678901234567890123456789') COLLATE "pg_c_utf8",
            '[\u00ad\u0640\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]+', '', 'g'),
            '[[:punct:][:cntrl:]$+<=>^`|~]+', ' ', 'g'),
            '([a-z])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])', '\1\2 ', 'g'),
            '([\u0e00-\u17ff\u3005-\u318f\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]{1,64})',
            ' \1 ', 'g')), '[[:space:]]+') AS piece
    ), pairs AS (
        SELECT substr(piece, place, size) AS word
        FROM pieces, LATERAL (SELECT CASE WHEN ascii(piece) < 6144 THEN 3 ELSE 2 END AS size) AS of_script,
             generate_series(1, greatest(length(piece) - size + 1, 1)) AS place
        WHERE piece <> '' AND memory_is_paired(piece)
    )
    SELECT word FROM pairs WHERE word !~ '^[\u3041-\u309f]+$' AND word <> ALL ('{
        一个, 一下, 一些, 不了, 不会, 不是, 不能, 为什, 之后, 之前, 什么, 什麼, 他们, 们的, 但是, 你们, 你的, 只能, 可以, 哪个, 哪些, 因为, 多少, 如何, 如果, 它们, 就是,
        应该, 怎么, 怎麼, 怎样, 想要, 我们, 我的, 所以, 时候, 是否, 有没, 没有, 然后, 现在, 的时, 能不, 自己, 请问, 还是, 这个, 这些, 这样, 那个, 都是, 需要, 么办, 么时,
        几个, 有什, 要什, 是什, 会不, 不到, 可能, 或者, 而且, 已经, 其他
        }'::text[])
    UNION ALL
    SELECT memory_stem(left(piece, 200), language) FROM pieces
    WHERE piece <> '' AND NOT memory_is_paired(piece) AND piece <> ALL ('{
        في, من, على, إلى, الى, عن, أن, ان, إن, هل, ما, ماذا, لماذا, كيف, متى, أين, اين, كم, أي, لا, لم, لن, ليس, هو,
        هي, أنا, انا, نحن, هذا, هذه, ذلك, تلك, التي, الذي, مع, ثم, أو, او, و, قد, كل, بعد, قبل, عند, كان, كانت, بين,
        حتى, إذا, اذا, لكن, غير, منذ, كما, به, بها, له, لها, فيه, فيها, لي, يا, إلا, وإلا, أم, है, हैं, था, थी, थे,
        हो, हूँ, हुआ, हुई, का, की, के, को, में, से, पर, ने, और, या, कि, जो, यह, वह, ये, वे, इस, उस, क्या, क्यों,
        कैसे, कब, कहाँ, कौन, सी, सा, कितना, कितने, कितनी, कितनों, मैं, मैंने, मेरा, मेरी, मेरे, हम, हमारा, हमारी,
        हमारे, आप, आपका, आपकी, आपके, तो, भी, ही, नहीं, न, मत, एक, कर, करके, करना, करो, लिए, तक, साथ, बाद, पहले, फिर,
        अब, जब, तब, गया, गई, गए, जाता, जाती, जाते, होता, होती, होते, रहा, रही, रहे, कोई, कुछ, सब, बिना, वाला, वाली,
        वाले, अपना, अपनी, अपने, दो, लो, दे, ले, चाहिए, चाहता, चाहती, चाहते, सकता, सकती, सकते, सकूँ, मुझे, हमें, उसे,
        उन्हें, इसे, ऐसा, ऐसे, ऐसी, इसलिए, क्योंकि, अगर, यदि, लेकिन, किया, दिया, करें, करूँ, बताइए, बताओ, कृपया, बहुत,
        что, чтобы, это, этот, эта, эти, мне, мой, моя, мои, какой, какая, какие, каково, который, которая, которые,
        почему, сколько, где, когда, зачем, отчего, ли
        }'::text[])
$$;

-- The words of a text: a number for each, its stem, and how often it occurs. Punctuation separates words, and names such
-- as AbleStyle, HTTPServer, create_qr_code and math.sqrt are split into words. The number depends on the project too, so
-- that one index of all projects keeps their words apart. Words that every task shares are left out: those of
-- memory/embeddings/words.py, as PostgreSQL's English stemmer leaves them (a test compares the two), and the stop words
-- of other languages. Plain English, which most texts are, is split by PostgreSQL itself, in a fraction of the time.
CREATE OR REPLACE FUNCTION memory_terms(project uuid, body text)
RETURNS TABLE (term integer, word text, occurrences integer)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 60 AS $$
    WITH read AS MATERIALIZED (
        SELECT language, language <> 'english' OR octet_length(body) > length(body) AS is_foreign
        FROM (SELECT memory_language(body) AS language) AS of_text
    ), words AS (
        SELECT lexeme, coalesce(cardinality(positions), 1) AS times
        FROM read, unnest(
            to_tsvector('pg_catalog.english', regexp_replace(
                translate(left(body, 60000), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)),
                '([a-z])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])', '\1\2 ', 'g')))
        WHERE NOT is_foreign
        UNION ALL
        SELECT lexeme, count(*) FROM read, memory_foreign_words(body, language) AS lexeme
        WHERE lexeme IS NOT NULL AND is_foreign
        GROUP BY lexeme
    )
    SELECT 1 + ('x' || substr(md5(project::text || lexeme), 1, 7))::bit(28)::integer AS term, min(lexeme) AS word,
           sum(times)::integer AS occurrences
    FROM words
    WHERE lexeme <> ALL ('{
        abl, addit, also, answer, anyon, anyth, ask, assist, avail, best, certain, come, comprehens, concern, could,
        current, d, detail, effect, ensur, exact, find, first, get, give, go, good, great, hello, help, hi, improv,
        includ, inform, interest, keep, know, last, latest, let, like, ll, look, m, make, may, might, must, need, new,
        okay, one, particular, pleas, popular, possibl, potenti, prefer, provid, question, re, recent, recommend,
        regard, relat, relev, request, say, see, show, someon, someth, specif, start, suggest, take, tell, thank,
        thing, time, top, tri, us, use, user, varieti, various, ve, want, way, well, wish, without, would, yes
        }'::text[])
    GROUP BY 1
$$;

-- Words with their weights as a unit vector. A fifth of it are the pieces of the words, four letters each (a word begins
-- with a space), so that parts of a compound and forms that the stemmer does not know are similar. The pieces of a pair
-- of characters are these two, those of three its two pairs. A piece weighs as much as the words that have it. Pieces
-- have numbers above those of words. pgvector takes 16,000 numbers.
CREATE OR REPLACE FUNCTION memory_word_vector(terms integer[], words text[], weights float8[]) RETURNS sparsevec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    WITH weighed AS (
        (SELECT term, weight, 0.8 AS share FROM unnest(terms, weights) AS said (term, weight))
        UNION ALL
        (SELECT (1 << 28) + 1 + (hashtextextended(
                    CASE WHEN is_pair THEN substr(word, place, greatest(length(word) - 1, 1))
                         ELSE substr(' ' || word, place, 4) END, 0) & ((1 << 28) - 1))::integer,
                sum(weight), 0.2
         FROM (SELECT word, weight, memory_is_paired(word) AS is_pair
               FROM unnest(words, weights) AS said (word, weight)) AS said,
              generate_series(1, CASE WHEN is_pair THEN least(length(word), 2) ELSE greatest(length(word) - 2, 1) END) AS place
         GROUP BY 1)
        ORDER BY share DESC, weight DESC, term LIMIT 16000
    )
    SELECT coalesce('{' || string_agg(term || ':' || (sqrt(share) * weight / length)::real, ',') || '}/1000000000',
                    '{}/1000000000')::sparsevec
    FROM (SELECT term, weight, share, sqrt(sum(weight ^ 2) OVER (PARTITION BY share)) AS length FROM weighed) AS scaled
$$;

-- A text as a unit vector. Repeated words weigh by the logarithm.
CREATE OR REPLACE FUNCTION memory_text_vector(project uuid, body text) RETURNS sparsevec
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT memory_word_vector(array_agg(term), array_agg(word), array_agg(1 + ln(occurrences::float8)))
    FROM memory_terms(project, body)
$$;

-- What a word of a task weighs: the fewer texts have it, and the more often the task says it, the more. The shorter the
-- task, the more its rare words count, and the longer, the more its repeated ones: the rare words of a long story are
-- its details.
CREATE OR REPLACE FUNCTION memory_word_weight(occurrences integer, words bigint, texts float8, present float8)
RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (ln(1 + (texts - present + 0.5) / (present + 0.5)) / ln(1 + (texts + 0.5) / 0.5)) ^ least(1, 2 / sqrt(words))
           * (1 + ln(occurrences)) ^ (1 - least(1, 2 / sqrt(words)))
$$;

-- A task as a unit vector, by how many of the texts that the project serves contain each word.
CREATE OR REPLACE FUNCTION memory_query_vector(project uuid, body text) RETURNS sparsevec
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH known AS (
        SELECT coalesce((SELECT texts FROM memory_searchstatistics s WHERE s.project_id = project), 0)::float8 AS texts
    ), weighted AS (
        -- Each word is looked up: in a join, the planner expects many and reads the counts of all words of the project.
        SELECT w.term, w.word, memory_word_weight(w.occurrences, count(*) OVER (), known.texts, greatest(least(coalesce(
            (SELECT c.texts FROM memory_termcount c WHERE c.project_id = project AND c.term = w.term),
            0), known.texts), 0)) AS weight
        FROM memory_terms(project, body) w CROSS JOIN known
    )
    SELECT memory_word_vector(array_agg(term), array_agg(word), array_agg(weight)) FROM weighted
$$;

-- Note the words of a text that comes into or goes out of service. They are counted later (memory_count_terms), so that
-- approvals do not wait for each other on the rows of common words.
CREATE OR REPLACE FUNCTION memory_term_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.served AND OLD.term_ids IS NOT NULL THEN
        INSERT INTO memory_termchange (project_id, sign, term_ids) VALUES (OLD.project_id, -1, OLD.term_ids);
    END IF;
    IF TG_OP <> 'DELETE' AND NEW.served AND NEW.term_ids IS NOT NULL THEN
        INSERT INTO memory_termchange (project_id, sign, term_ids) VALUES (NEW.project_id, 1, NEW.term_ids);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_term_changed AFTER INSERT OR DELETE OR UPDATE OF served, term_ids
    ON memory_heuristicembedding FOR EACH ROW EXECUTE FUNCTION memory_term_changed();

-- Count what has changed since the last call and return how many texts that were. Only one process counts in a project
-- at a time; another returns 0 at once.
CREATE OR REPLACE FUNCTION memory_count_terms(counted uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    changed bigint;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('memory_count_terms' || counted::text, 0)) THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM memory_termchange WHERE project_id = counted RETURNING sign, term_ids
    ), terms AS (
        INSERT INTO memory_termcount AS c (project_id, term, texts)
        SELECT counted, term, sum(sign) FROM gone, unnest(term_ids) AS term
        GROUP BY term HAVING sum(sign) <> 0 AND EXISTS (SELECT FROM memory_project WHERE id = counted)
        ON CONFLICT (project_id, term) DO UPDATE SET texts = c.texts + EXCLUDED.texts
    ), texts AS (
        INSERT INTO memory_searchstatistics AS s (project_id, texts)
        SELECT counted, sum(sign) FROM gone
        HAVING count(*) > 0 AND EXISTS (SELECT FROM memory_project WHERE id = counted)
        ON CONFLICT (project_id) DO UPDATE SET texts = s.texts + EXCLUDED.texts
    )
    SELECT count(*) INTO changed FROM gone;
    IF changed > 0 THEN  -- words weigh differently now, and changes that have piled up are folded
        INSERT INTO memory_servedchange (project_id, token, of_texts) VALUES (counted, memory_new_token(), false);
        PERFORM memory_fold_changes(counted);
    END IF;
    RETURN changed;
END $$;

-- The state of what a project serves is named by the exclusive or of its tokens in memory_servedchange. A change adds a
-- random token; `of_texts` says whether it changed the texts that are searched.
CREATE OR REPLACE FUNCTION memory_new_token() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT hashtextextended(gen_random_uuid()::text, 0)
$$;

-- Replace the tokens of a project by their exclusive or, which leaves the name of its state as it is.
CREATE OR REPLACE FUNCTION memory_fold_changes(folded uuid) RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM memory_servedchange WHERE project_id = folded RETURNING token, of_texts
    )
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT folded, bit_xor(token), of_texts FROM gone GROUP BY of_texts
$$;

-- Texts that are searched have changed: one token for each project that a statement touches.
CREATE OR REPLACE FUNCTION memory_texts_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (SELECT DISTINCT project_id FROM added WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_texts_added AFTER INSERT ON memory_heuristicembedding
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_added();

CREATE OR REPLACE FUNCTION memory_texts_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (
        SELECT project_id FROM added WHERE served UNION SELECT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_texts_changed AFTER UPDATE ON memory_heuristicembedding
    REFERENCING OLD TABLE AS gone NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_changed();

CREATE OR REPLACE FUNCTION memory_texts_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts)
    SELECT project_id, memory_new_token(), true FROM (SELECT DISTINCT project_id FROM gone WHERE served) AS changed;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_texts_gone AFTER DELETE ON memory_heuristicembedding
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION memory_texts_gone();

-- Something else that answers contain has changed: support, names, whether a revision is served (it may have no vector
-- yet), or usefulness by a twentieth or more; less is not worth a new search.
CREATE OR REPLACE FUNCTION memory_row_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_servedchange (project_id, token, of_texts) VALUES (NEW.project_id, memory_new_token(), false);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER memory_support_changed AFTER UPDATE OF approved_support ON memory_heuristic
    FOR EACH ROW WHEN (NEW.kind = 'lesson' AND OLD.approved_support IS DISTINCT FROM NEW.approved_support)
    EXECUTE FUNCTION memory_row_changed();
CREATE OR REPLACE TRIGGER memory_usefulness_changed AFTER UPDATE OF usefulness ON memory_heuristic
    FOR EACH ROW WHEN (round(OLD.usefulness * 20) IS DISTINCT FROM round(NEW.usefulness * 20))
    EXECUTE FUNCTION memory_row_changed();
CREATE OR REPLACE TRIGGER memory_service_changed AFTER UPDATE ON memory_heuristicrevision
    FOR EACH ROW WHEN (OLD.live IS DISTINCT FROM NEW.live) EXECUTE FUNCTION memory_row_changed();
CREATE OR REPLACE TRIGGER memory_names_changed AFTER UPDATE OF names ON memory_heuristicrevision
    FOR EACH ROW WHEN (NEW.live AND OLD.names IS DISTINCT FROM NEW.names) EXECUTE FUNCTION memory_row_changed();

-- The names in a text, each reduced to its letters and digits: ' cancelorder errconnreset '. The rules and both word
-- lists are those of memory/retrieval/name_match.py (a test compares them).
CREATE OR REPLACE FUNCTION memory_names(body text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    WITH tokens AS (
        SELECT DISTINCT found[1] AS token FROM regexp_matches(
            left(CASE WHEN octet_length(body) > length(body) THEN normalize(body, NFKC) ELSE body END, 20000) COLLATE "C",
            '[A-Za-z0-9]+(?:(?:::|__|[_.:/-])[A-Za-z0-9]+)*', 'g') AS found
    ), parts AS (
        SELECT token AS part FROM tokens
        UNION SELECT regexp_split_to_table(token, '[/:]+') FROM tokens WHERE token NOT LIKE 'REDACTED:%'
        UNION SELECT regexp_split_to_table(token, '[/:.]+') FROM tokens WHERE token NOT LIKE 'REDACTED:%'
    ), keyed AS (
        SELECT part, lower(regexp_replace(part, '[^A-Za-z0-9]', '', 'g')) AS key FROM parts
    ), sized AS (
        SELECT part, key FROM keyed WHERE length(key) BETWEEN 3 AND 64 AND key !~ '^[0-9]+$'
    ), signed AS (
        SELECT DISTINCT key FROM sized
        WHERE part ~ '_|::|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]{2}|/.*/|^[A-Za-z].*[0-9]|[A-Za-z][0-9]|[0-9][A-Za-z]{4}'
           OR part ~ '^[A-Za-z]+(-[A-Za-z]+){2,}$' AND NOT string_to_array(lower(part), '-') &&
              '{a, an, and, as, at, be, by, for, in, is, it, of, on, or, the, to, up, use}'::text[]
    ), capitals AS (
        SELECT DISTINCT key FROM sized
        WHERE part ~ '^[A-Z]+(-[A-Z]+)*$' AND key NOT IN (SELECT key FROM signed) AND key <> ALL ('{
            able, about, above, addition, after, again, against, all, also, always, and, answer, any, anyone,
            anything, are, ask, asked, asking, assist, available, because, been, before, being, below, best, between,
            both, but, can, caution, certain, come, comprehensive, concern, could, critical, current, currently,
            detail, detailed, details, did, does, doing, don, down, during, each, effective, else, ensure, exact, few,
            find, finding, first, for, from, further, get, give, good, great, had, has, have, having, hello, help,
            helping, her, here, hers, herself, him, himself, his, how, important, improve, include, includes,
            including, inform, information, interest, interested, into, its, itself, just, keep, know, last, latest,
            let, like, look, looking, make, may, might, more, most, must, myself, need, needs, never, new, nor, not,
            note, now, off, okay, once, one, only, other, our, ours, ourselves, out, over, own, particular, please,
            popular, possible, possibly, potential, prefer, provide, provided, provides, providing, question, recent,
            recommend, recommendation, recommendations, recommending, regard, regarding, related, relevant, request,
            required, same, say, see, she, should, show, some, someone, something, specific, specifically, start,
            such, suggest, suggesting, suggestion, suggestions, take, tell, than, thank, thanks, that, the, their,
            theirs, them, themselves, then, there, these, they, thing, things, this, those, through, time, todo, too,
            top, try, under, until, use, used, user, using, variety, various, very, want, wanted, wants, warning, was,
            way, well, were, what, when, where, which, while, who, whom, why, will, wish, with, without, would, yes,
            you, your, yours, yourself, yourselves
            }'::text[])
    )
    SELECT coalesce(' ' || string_agg(key, ' ' ORDER BY key COLLATE "C") || ' ', '')
    FROM (SELECT key FROM signed
          UNION SELECT key FROM capitals WHERE (SELECT count(*) FROM capitals) <= 5) AS named
$$;

-- Every revision is written with its names; one without them gets them with its next update.
CREATE OR REPLACE FUNCTION memory_revision_names() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.kind = 'mistake' THEN
        NEW.names := '';  -- not searched
    ELSIF TG_OP = 'INSERT' OR OLD.names IS NULL OR NEW.names IS DISTINCT FROM OLD.names THEN
        NEW.names := memory_names(
            concat_ws(E'\n', NEW.trigger, NEW.guideline, NEW.avoid, array_to_string(NEW.tags, E'\n')));
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER memory_revision_names BEFORE INSERT OR UPDATE ON memory_heuristicrevision
    FOR EACH ROW EXECUTE FUNCTION memory_revision_names();

-- Find the served revisions that have each of the names. For the first two names that none has, find those with similar
-- trigrams whose names include one that starts with the same two letters, and the same digits. `names` is the name
-- itself, or all names of the revision where the caller has to compare. At most `most` rows are read for a name, ten
-- times as many for a similar one.
CREATE OR REPLACE FUNCTION memory_named(asked uuid, keys text[], most integer)
RETURNS TABLE (place integer, revision_id uuid, names text) LANGUAGE plpgsql STABLE
SET pg_trgm.strict_word_similarity_threshold = 0.4 AS $$
DECLARE
    key text;
    run text;
    left_near integer := 2;
BEGIN
    place := 0;
    FOREACH key IN ARRAY keys LOOP
        place := place + 1;
        RETURN QUERY SELECT place, n.revision_id, key FROM servable_name n
            WHERE n.project_id = asked AND string_to_array(n.names, ' ') @> ARRAY[key] LIMIT most;
        CONTINUE WHEN FOUND OR length(key) < 6 OR left_near = 0;
        left_near := left_near - 1;
        run := (SELECT part[1] FROM regexp_matches(key, '[0-9]+', 'g') AS part ORDER BY length(part[1]) DESC LIMIT 1);
        RETURN QUERY SELECT place, near.revision_id, near.names FROM (
            SELECT n.revision_id, n.names FROM servable_name n
            WHERE n.project_id = asked AND n.names %>> key AND n.names LIKE '% ' || left(key, 2) || '%'
                AND n.names LIKE '%' || coalesce(run, left(key, 2)) || '%'
            LIMIT 10 * most) AS near
            ORDER BY strict_word_similarity(key, near.names) DESC, near.revision_id LIMIT most;
    END LOOP;
END $$;

-- The words of a run: its task and every text of its steps, for the search of the admin. Paths and names such as
-- get_order are split. The beginning of a long run has to do: a vector of words holds at most a megabyte.
CREATE OR REPLACE FUNCTION memory_run_words(task text, steps jsonb) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT to_tsvector('pg_catalog.simple', translate(left(
        task || coalesce((SELECT string_agg(' ' || (value #>> '{}'), '')
                          FROM jsonb_path_query(steps, 'strict $.** ? (@.type() == "string")') AS value), ''),
        150000), '_/.:@=-', '       '))
$$;
-- Runs that are still recorded in parts would be read again with every part, so they are found once they have ended.
CREATE INDEX IF NOT EXISTS memory_trajectory_words ON memory_trajectory USING gin (memory_run_words(task, steps))
    WHERE NOT is_open;
-- Searches need no statistics of it, which ANALYZE would read thousands of runs for.
ALTER INDEX memory_trajectory_words ALTER COLUMN 1 SET STATISTICS 0;
