import { createTransport, type Transporter } from 'nodemailer'
import type { Config } from '../base/config.ts'
import type { Logger } from './log.ts'
import type { Redis } from './redis.ts'

/** An email as a person gets it. `link` is the one thing it asks them to open. */
export type Mail = { to: string; subject: string; text: string; link?: { label: string; url: string } }
export type OutboxMail = Mail & { sentAt: string }

const timeoutMs = 15_000
const mostKept = 50
const keptSeconds = 24 * 3_600
const outboxName = 'outbox'

/**
 * Sends emails over SMTP. Without `SMTP_URL` the link of each is logged, and on a development machine (`DEV_OUTBOX`) the
 * latest are kept for a page: links sign people in, so nothing else may keep them.
 */
export class Mailer {
  readonly #transport: Transporter | null
  readonly #settings: Config['email']
  readonly #redis: Redis
  readonly #log: Logger

  constructor(settings: Config['email'], redis: Redis, log: Logger) {
    const timeouts = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
    this.#transport = settings.smtpUrl ? createTransport({ url: settings.smtpUrl, pool: true, ...timeouts }) : null
    this.#settings = settings
    this.#redis = redis
    this.#log = log
  }

  /** Hands an email to the mail server. Throws what the connection or the server's refusal throws. */
  async send(mail: Mail): Promise<void> {
    if (this.#transport) {
      const { to, subject } = mail
      await this.#transport.sendMail({ from: this.#settings.from, to, subject, ...bodies(mail) })
      return
    }
    this.#log.info({ to: mail.to, subject: mail.subject, link: mail.link?.url }, 'email not sent: SMTP_URL is not set')
    if (!this.#settings.outbox) return
    const kept: OutboxMail = { ...mail, sentAt: new Date().toISOString() }
    await this.#redis
      .multi()
      .lpush(outboxName, JSON.stringify(kept))
      .ltrim(outboxName, 0, mostKept - 1)
      .expire(outboxName, keptSeconds)
      .exec()
  }

  /** The latest emails, newest first; null where this is no development machine. */
  async outbox(): Promise<OutboxMail[] | null> {
    if (this.#transport || !this.#settings.outbox) return null
    const kept = await this.#redis.lrange(outboxName, 0, -1)
    return kept.map(text => JSON.parse(text) as OutboxMail)
  }

  close(): void {
    this.#transport?.close()
  }
}

function bodies({ text, link }: Mail): { text: string; html: string } {
  const paragraphs = text.split('\n\n').map(part => `<p>${escapeHtml(part).replaceAll('\n', '<br>')}</p>`)
  const button = link ? `<p><a href="${escapeHtml(link.url)}">${escapeHtml(link.label)}</a></p>` : ''
  return {
    text: link ? `${text}\n\n${link.label}: ${link.url}\n` : `${text}\n`,
    html: `<div style="font-family:sans-serif;line-height:1.5">${paragraphs.join('')}${button}</div>`,
  }
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => entities[character]!)
}
