/** The forms of secrets in text: where one may begin, what follows, and what is replaced. */

/** A secret of a known form: `begin` is the fixed text at its beginning, `rest` matches what follows. */
type Form = { begin: string; rest: string }

/**
 * Each begins with a fixed text and has a bounded rest, so that a scan stays linear. `rest` is at least as long as the random
 * part of a real one, so that words such as `sk-learn` stay.
 */
const forms: Form[] = [
  // OpenAI, Anthropic, OpenRouter and others; Stripe.
  { begin: '(?:sk|rk|pk)[-_](?:live|test|ant|or|proj|svcacct|admin|lf)[-_]', rest: String.raw`[\w-]{16,256}` },
  { begin: '(?:sk|pk)-', rest: '[A-Za-z0-9]{20,256}' },
  // This gateway.
  { begin: 'svc_[a-z]{2,8}_', rest: String.raw`[\w-]{16,256}` },
  { begin: 'ek_', rest: String.raw`(?=[a-z]{0,32}[\dA-Z])\w{20,256}` },
  { begin: 'whsec_', rest: String.raw`[\w+/=]{16,256}` },
  // Amazon, Google, GitHub, GitLab, Slack.
  { begin: '(?:AKIA|ASIA)', rest: '[A-Z0-9]{16}(?![A-Za-z0-9])' },
  { begin: 'AIza', rest: String.raw`[\w-]{35}` },
  { begin: String.raw`ya29\.`, rest: String.raw`[\w-]{20,512}` },
  { begin: 'GOCSPX-', rest: String.raw`[\w-]{20,64}` },
  { begin: 'gh[pousr]_', rest: '[A-Za-z0-9]{30,255}' },
  { begin: 'github_pat_', rest: String.raw`\w{30,255}` },
  { begin: 'glpat-', rest: String.raw`[\w.-]{20,64}` },
  { begin: 'xox[abeoprs]-', rest: String.raw`[\w-]{10,256}` },
  { begin: 'xapp-', rest: String.raw`\d-[\w-]{20,256}` },
  { begin: String.raw`hooks\.slack\.com/(?:services|workflows|triggers)/`, rest: String.raw`[\w/+-]{8,256}` },
  { begin: String.raw`discord(?:app)?\.com/api/webhooks/`, rest: String.raw`[\w/-]{20,256}` },
  // Hugging Face, npm, Groq, Replicate, Neon, xAI, NVIDIA, Perplexity, Tavily, Docker, Shopify, Linear, DigitalOcean, PyPI, SendGrid.
  { begin: '(?:hf|npm|gsk|r8)_', rest: '[A-Za-z0-9]{30,128}' },
  { begin: 'npg_', rest: '[A-Za-z0-9]{10,64}' },
  { begin: 'xai-', rest: '[A-Za-z0-9]{30,128}' },
  { begin: '(?:nvapi|pplx|tvly)-', rest: String.raw`(?=[a-z-]{0,32}[\dA-Z])[\w-]{24,128}` },
  { begin: '(?:dckr_pat_|shp(?:at|ss|ca|pa)_|lin_api_|dop_v1_|pypi-)', rest: String.raw`[\w-]{20,256}` },
  { begin: String.raw`SG\.`, rest: String.raw`[\w-]{16,32}\.[\w-]{16,64}` },
]
const headerForms: Form[] = [
  // Headers. `Basic` is a word as well: its credentials have a digit or a sign.
  { begin: '[Bb]earer[ +]', rest: String.raw`[\w.~+/-]{20,4096}=*` },
  { begin: '[Bb]asic[ +]', rest: '(?=[A-Za-z]{0,64}[0-9+/=])[A-Za-z0-9+/]{8,4096}={0,2}' },
]

/**
 * Before a secret: no letter, digit or underscore, or one that belongs to an escape, as in `\n` in source code or in JSON within
 * other text, in `%20`, and in the codes of a terminal's colours.
 */
const escapeBefore = String.raw`(?<=\\[abefnrtv0]|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|%[\da-fA-F]{2}|\[[\d;]{0,8}m)`
const beforeSecret = `(?:(?<![A-Za-z0-9_])|${escapeBefore})`

/** Names, without separators and in lower case, whose value is a secret. */
const secretNames =
  'api_?key|apikey|secret_?key|secret|access_?key|private_?key|account_?key|shared_?access_?key|encryption_?key|signing_?key|' +
  'subscription_?key|auth_?key|master_?key|password|passwd|passphrase|access_?token|refresh_?token|id_?token|auth_?token|' +
  'bearer_?token|session_?token|api_?token|security_?token|authorization|credentials?|cookie|connection_?string'
const secretName = new RegExp(`(?:${secretNames})$`)
/** Longer names are none of these. */
const maxNameLength = 64

/** Whether a member's name says that its value is a secret: `api_key`, `OPENAI_API_KEY`, `clientSecret`, `Set-Cookie`. */
export function namesSecret(name: string): boolean {
  return name.length <= maxNameLength && secretName.test(name.replaceAll(/[-.\s]/g, '_').toLowerCase())
}

function patternOf(these: readonly Form[]): RegExp {
  return new RegExp(these.map(({ begin, rest }) => `${begin}(?<=${beforeSecret}${begin})${rest}`).join('|'), 'g')
}

/** Matches keys and tokens of known forms, of at most 600 characters without white space. */
export const keys = patternOf(forms)
/** Matches all secrets of known forms. */
export const secrets = patternOf([...forms, ...headerForms])

/**
 * What begins with text of any length is found by the sign after that: a search for its beginning would scan a long run of
 * letters again from each of them. The first group is the beginning, before the match.
 */
export const tokens = new RegExp(
  String.raw`\.(?=eyJ)(?<=((?:${beforeSecret}Bearer )?${beforeSecret}eyJ[\w-]{10,})\.)eyJ[\w-]{10,}\.[\w-]{10,}`,
  'g',
)
export const emails = /@(?<=([\w.+-]{1,64})@)[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}/g

/** Matches the password in a URL, after its user: `postgres://ada:…@host`. */
export const urlPasswords = /:\/\/[^\s/:@"'<>\\]{0,64}:(?!\[secret removed\])[^\s/@"'<>\\]{1,256}(?=@)/g
/** Matches the value of a parameter in a URL. Signatures stay: they expire, and a request is repeated with its URLs. */
export const urlParameters =
  /[?&](?:key|api[-_]?key|access[-_]?token|auth|token|password|secret|client_secret)=[\w.~%+/=-]{8,1024}/gi
/**
 * Matches a named value in text that is not JSON: a line of a header, of an environment, of code. It has a digit, which a word or an
 * expression seldom has.
 */
export const namedValues = new RegExp(
  String.raw`(?:${secretNames.replaceAll('_?', '[-_]?')})(?:\\{0,8}["'])?[ \t]{0,4}[:=][ \t]{0,4}(?:\\{0,8}["'])?(?=[^\s"'\x60,;&<>(){}[\]\\\d]{0,128}\d)[^\s"'\x60,;&<>(){}[\]\\]{8,512}`,
  'gi',
)

/** Matches every text that the patterns above can match, and few others: most strings of JSON are short and plain. */
export const hints =
  /[:=@?&]|[sr]k[-_]|pk[-_]|svc_|ek_|whsec_|A(?:KIA|SIA|Iza)|ya29|GOCSPX|gh[pousr]_|github_|glpat|xox|xapp|slack|discord|(?:hf|npm|gsk|r8|npg|pat|shp..|api|v1)_|(?:xai|api|pplx|tvly|pypi)-|SG\.|earer|asic|eyJ|-BEGIN/
