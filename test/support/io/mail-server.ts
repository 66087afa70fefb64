import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { SMTPServer } from 'smtp-server'

export type ReceivedMail = { to: string[]; subject: string; raw: string }

/** A mail server on loopback that accepts everything until it is set to refuse. */
export class MailServer {
  readonly received: ReceivedMail[] = []
  refusing = false
  /** Refused as a recipient, permanently. */
  refusedAddress: string | null = null
  /** How often it was asked to take an email. */
  asked = 0
  /** It answers an email after this; whether it refuses it is decided before. */
  until: Promise<void> = Promise.resolve()
  readonly #server: SMTPServer

  private constructor() {
    this.#server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS', 'AUTH'],
      onRcptTo: ({ address }, _session, done) =>
        done(address === this.refusedAddress ? Object.assign(new Error('No such user'), { responseCode: 550 }) : null),
      onData: (stream, { envelope }, done) => {
        this.asked++
        const { refusing, until } = this
        void text(stream).then(async raw => {
          await until
          if (refusing) return done(Object.assign(new Error('Try again later'), { responseCode: 451 }))
          const to = envelope.rcptTo.map(({ address }) => address)
          const header = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ')
          this.received.push({ to, subject: subjectOf(header), raw })
          done()
        })
      },
    })
  }

  static async start(): Promise<MailServer> {
    const server = new MailServer()
    await once(server.#server.listen(0, '127.0.0.1'), 'listening')
    return server
  }

  get url(): string {
    return `smtp://127.0.0.1:${(this.#server.server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    await new Promise<void>(resolve => this.#server.close(resolve))
  }
}

/** The subject of an email, of which other characters than ASCII are encoded (RFC 2047). */
function subjectOf(header: string): string {
  const [, subject = ''] = /^Subject: (.*)$/m.exec(header) ?? []
  const joined = subject.replace(/\?= =\?UTF-8\?Q\?/gi, '')
  return joined.replace(/=\?UTF-8\?Q\?(.*?)\?=/gi, (_, text: string) =>
    decodeURIComponent(text.replaceAll('_', ' ').replaceAll('%', '%25').replaceAll('=', '%')),
  )
}
