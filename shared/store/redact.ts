/** Secrets of well-known forms. Each is a fixed text and enough characters after it, so that a scan of long texts stays linear. */
const secrets = new RegExp(
  [
    // OpenAI, Anthropic, OpenRouter and others; Stripe; this gateway.
    String.raw`\b(?:sk|rk|pk)[-_](?:live|test|ant|or|proj|svcacct|admin)[-_][\w-]{16,256}`,
    String.raw`\bsk-[A-Za-z0-9]{20,256}`,
    String.raw`\bsvc_[a-z]{2,8}_[\w-]{16,256}`,
    String.raw`\bwhsec_[\w+/=]{16,256}`,
    // Amazon, Google, GitHub, GitLab, Slack, Hugging Face, npm, Groq, xAI.
    String.raw`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,
    String.raw`\bAIza[\w-]{35}`,
    String.raw`\b(?:gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{30,255}|glpat-[\w-]{20,64})`,
    String.raw`\bxox[abeoprs]-[\w-]{10,256}`,
    String.raw`\b(?:hf|npm|gsk)_[A-Za-z0-9]{30,128}|\bxai-[A-Za-z0-9]{30,128}`,
    String.raw`\bBearer [\w.~+/-]{20,4096}`,
  ].join('|'),
  'g',
)
/**
 * What begins with text of any length is found by the sign after that: a search for its beginning would scan a long run of
 * letters again from each of them. The first group is the beginning, before the match.
 */
const tokens = /\.(?=eyJ)(?<=((?:\bBearer )?\beyJ[\w-]{10,})\.)eyJ[\w-]{10,}\.[\w-]{10,}/g
const emails = /@(?<=([\w.+-]{1,64})@)[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}/g
const keyBegin = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----/g
const keyEnd = '-----END '

/** Strings that are files: `data:` URIs, and long runs of base64. */
const files = /"(?:data:[^"]*|[A-Za-z0-9+/=_-]{4096,})"/g

/** Removes secrets, and email addresses if wanted; returns how many. */
export function redact(text: string, { emails: withEmails }: { emails: boolean }): { text: string; count: number } {
  let count = 0
  const replaceBy = (mark: string) => () => {
    count++
    return mark
  }
  const secretRemoved = replaceBy('[secret removed]')
  const withoutKeys = withoutPrivateKeys(text, replaceBy('[private key removed]'))
  const redacted = replaceWithBeginning(withoutKeys, tokens, secretRemoved).replace(secrets, secretRemoved)
  return { text: withEmails ? replaceWithBeginning(redacted, emails, replaceBy('[email removed]')) : redacted, count }
}

/** Replaces the matches of a pattern, each with its first group, which is the text before it. */
function replaceWithBeginning(text: string, pattern: RegExp, replacement: () => string): string {
  let rest = ''
  let from = 0
  for (const { index, 0: match, 1: beginning } of text.matchAll(pattern)) {
    rest += text.slice(from, Math.max(from, index - beginning!.length)) + replacement()
    from = index + match.length
  }
  return rest + text.slice(from)
}

/** Replaces the files inside JSON text by a mark. */
export function withoutFiles(json: string): string {
  return json.replace(files, '"[file removed]"')
}

/** A key without its end is cut off at the end of the text. */
function withoutPrivateKeys(text: string, replacement: () => string): string {
  let rest = ''
  let from = 0
  for (const { index } of text.matchAll(keyBegin)) {
    if (index < from) continue
    const end = text.indexOf(keyEnd, index)
    const after = end < 0 ? text.length : text.indexOf('-----', end + keyEnd.length)
    rest += text.slice(from, index) + replacement()
    from = after < 0 ? text.length : Math.max(after + 5, end)
  }
  return from === 0 ? text : rest + text.slice(from)
}
