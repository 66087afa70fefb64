import type { ProviderLine } from './contract.ts'

/** Wraps a line so that `onSend` runs before each request is sent: from then on the provider may have received it. */
export function trackLine(line: ProviderLine, onSend: () => void): ProviderLine {
  const track =
    <Request, Answer>(call: (request: Request) => Answer) =>
    (request: Request): Answer => {
      onSend()
      return call(request)
    }
  return { ...line, send: track(line.send), stream: track(line.stream) }
}
