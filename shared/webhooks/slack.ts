/** An HTTP request to a receiver. */
export type Post = { url: string; headers: Record<string, string>; body: string }

/** A message in Slack's format for incoming webhooks, which others also understand. `link` is a page of the dashboard. */
export function slackMessage(
  url: string,
  { subject, text, link }: { subject: string; text: string; link: string },
): Post {
  const section = (markdown: string) => ({ type: 'section', text: { type: 'mrkdwn', text: markdown } })
  const blocks = [section(`*${escapeText(subject)}*\n${escapeText(text)}`), section(`<${link}|Show in the dashboard>`)]
  const headers = { 'content-type': 'application/json', 'user-agent': 'headgate' }
  return { url, headers, body: JSON.stringify({ text: escapeText(`${subject}: ${text}`), blocks }) }
}

/** Names may contain what Slack takes for links and mentions. */
function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
