"""Words that people count work in, as patterns."""

SAMPLES = (
    r"samples?|examples?|sentences?|documents?|docs?|rows?|records?|prompts?|requests?|questions?"
    r"|reviews?|messages?|articles?|conversations?|queries|query|paragraphs?|e-?mails?|tweets?|posts?"
    r"|pages?|papers?|instructions?|pairs?|tickets?|abstracts?|passages?|chunks?|stories|comments?"
    r"|descriptions?|titles?|answers?|responses?|texts?|snippets?|files?|pdfs?|entries|contracts?"
    r"|summaries|completions?|chats|dialog(?:ue)?s|transcripts|patents|products|items|listings"
    r"|captions|inputs|books|letters|notes|threads|headlines|lines|claims|resumes|cvs"
)
IMAGES = r"images?|pictures?|photos?|photographs?|frames?|scans?|x-rays?|tiles?|thumbnails?|slides?"
RECORDINGS = (
    r"audio|speech|recordings?|calls?|podcasts?|voice|meetings?|interviews?|video|episodes?|lectures?"
    r"|clips?|files?|voicemails?"
)
