"""Words common to all tasks. They say nothing about the subject, so they get a low weight in comparisons."""

# English function words (from the Snowball project)
_FUNCTION_WORDS = """
    a about above after again against all am an and any are as at be because been before being below between both
    but by can d did do does doing don down during each few for from further had has have having he her here hers
    herself him himself his how i if in into is it its itself just ll m me more most my myself no nor not now of
    off on once only or other our ours ourselves out over own re s same she should so some such t than that the
    their theirs them themselves then there these they this those through to too under until up ve very was we
    were what when where which while who whom why will with you your yours yourself yourselves
"""
# Words that people commonly use in requests
_REQUEST_WORDS = """
    able addition also answer anyone anything ask asked asking assist available best certain come comprehensive
    concern could current currently detail detailed details effective ensure exact find finding first get give go
    good great hello help helping hi improve include includes including inform information interest interested
    keep know last latest let like look looking make may might must need needs new okay one particular please
    popular possible possibly potential prefer provide provided provides providing question recent recommend
    recommendation recommendations recommending regard regarding related relevant request say see show someone
    something specific specifically start suggest suggesting suggestion suggestions take tell thank thanks thing
    things time top try us use used user using variety various want wanted wants way well wish without would yes
"""
SHARED_WORDS = frozenset(_FUNCTION_WORDS.split()) | frozenset(_REQUEST_WORDS.split())
SHARED_WORD_WEIGHT = 0.3  # in the mean over a text's tokens; chosen by measurement, see docs/retrieval.md
