import { setTimeout as sleep } from 'node:timers/promises'
import type { Transporter } from 'nodemailer'
import type { Config } from '../base/config.ts'
import { systemClock } from '../base/time.ts'
import type { Logger } from './log.ts'
import type { Redis } from './redis.ts'

/** An email to one person: `to` is one address. `link` is its call to action. */
export type Mail = { to: string; subject: string; text: string; link?: { label: string; url: string } }
type OutboxMail = Mail & { sentAt: string }

const timeoutMs = 15_000
/** Longer than the sum of a slow server's timeouts for one email. */
const maxSendMs = 60_000
const maxSending = 1_000
const closeTimeoutMs = 2_000
const maxOutboxMails = 50
const outboxTtlSeconds = 24 * 3_600
const outboxName = 'outbox'

/**
 * Sends emails over SMTP. Without `SMTP_URL` the link of each is logged at level `debug` only, and on a development
 * machine (`DEV_OUTBOX`) the latest are kept for a page: links grant access, so they are stored nowhere else.
 */
export class Mailer {
  readonly #transport: Transporter | null
  readonly #settings: Config['email']
  readonly #redis: Redis
  readonly #log: Logger
  /** Emails that `post` is sending. */
  readonly #sending = new Set<Promise<void>>()

  private constructor(transport: Transporter | null, settings: Config['email'], redis: Redis, log: Logger) {
    this.#transport = transport
    this.#settings = settings
    this.#redis = redis
    this.#log = log
  }

  /** Opens a mailer. The SMTP client is loaded only if it is used. */
  static async open(settings: Config['email'], redis: Redis, log: Logger): Promise<Mailer> {
    if (!settings.smtpUrl) return new Mailer(null, settings, redis, log)
    return new Mailer(await openTransport(settings.smtpUrl, timeoutMs), settings, redis, log)
  }

  /** Whether there is a mail server, or a page that shows what would be sent. */
  get isConfigured(): boolean {
    return this.#transport !== null || this.#settings.outbox
  }

  /** Connects to a mail server and signs in, without sending an email. Throws what fails. */
  static async verify(smtpUrl: string, timeoutMs: number): Promise<void> {
    const transport = await openTransport(smtpUrl, timeoutMs)
    try {
      await transport.verify()
    } finally {
      transport.close({ force: true })
    }
  }

  /** Sends an email to the mail server. Throws connection errors and rejections. */
  async send(mail: Mail): Promise<void> {
    if (this.#transport) {
      const { to, subject } = mail
      const signal = AbortSignal.timeout(maxSendMs)
      await this.#transport.sendMail({ from: this.#settings.from, to, subject, ...bodies(mail), signal })
      return
    }
    this.#log.info({ to: mail.to, subject: mail.subject }, 'email not sent: SMTP_URL is not set')
    // The log may have many readers: links are logged only at an explicitly enabled level.
    this.#log.debug({ to: mail.to, link: mail.link?.url }, 'link of an email that was not sent')
    if (!this.#settings.outbox) return
    const kept: OutboxMail = { ...mail, sentAt: new Date(systemClock.now()).toISOString() }
    await this.#redis
      .multi()
      .lpush(outboxName, JSON.stringify(kept))
      .ltrim(outboxName, 0, maxOutboxMails - 1)
      .expire(outboxName, outboxTtlSeconds)
      .exec()
  }

  /**
   * Sends an email in the background: the duration or failure of sending would reveal whether an address is known.
   * Failures are logged.
   */
  async post(mail: Mail): Promise<void> {
    if (this.#sending.size >= maxSending)
      return this.#log.warn({ subject: mail.subject }, 'email dropped: too many wait')
    const sending = this.send(mail).catch(error =>
      this.#log.warn({ err: error, subject: mail.subject }, 'email not sent'),
    )
    if (!this.#transport) return sending
    this.#sending.add(sending)
    void sending.finally(() => this.#sending.delete(sending))
  }

  /** Lists the latest emails, newest first; null unless this is a development machine. */
  async outbox(): Promise<OutboxMail[] | null> {
    if (this.#transport || !this.#settings.outbox) return null
    const kept = await this.#redis.lrange(outboxName, 0, -1)
    return kept.map(text => JSON.parse(text) as OutboxMail)
  }

  /** Waits briefly for emails in flight, then closes the connection. */
  async close(): Promise<void> {
    if (this.#sending.size > 0)
      await Promise.race([Promise.all(this.#sending), sleep(closeTimeoutMs, undefined, { ref: false })])
    this.#transport?.close({ force: true })
  }
}

/** Whether the mail server refused the recipient of an email, not the connection or the sender. */
export function isRefusedRecipient(error: unknown): boolean {
  const { code, command } = error as { code?: unknown; command?: unknown }
  return code === 'EENVELOPE' && command === 'RCPT TO'
}

async function openTransport(url: string, timeoutMs: number) {
  const { createTransport } = await import('nodemailer')
  const timeouts = { connectionTimeout: timeoutMs, greetingTimeout: timeoutMs, socketTimeout: timeoutMs }
  return createTransport({ url, pool: true, ...timeouts })
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
