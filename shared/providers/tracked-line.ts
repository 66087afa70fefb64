import type { ProviderLine } from './contract.ts'

/** The line, with `onSend` called whenever a request is about to leave on it: from then on the provider may have it. */
export function trackedLine(line: ProviderLine, onSend: () => void): ProviderLine {
  const tracked =
    <Request, Answer>(call: (request: Request) => Answer) =>
    (request: Request): Answer => {
      onSend()
      return call(request)
    }
  return { ...line, send: tracked(line.send), stream: tracked(line.stream) }
}
