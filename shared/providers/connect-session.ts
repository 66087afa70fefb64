import { openSocket, type SocketAddress, SocketRefused, SocketTimeout, type WebSocket } from '../io/socket.ts'
import type { Protocol } from './contract.ts'
import { ProviderError } from './provider-error.ts'
import { classifyRefusal } from './toolkit/refusal.ts'

/**
 * Opens a session's socket; `protocol` classifies its failures. Rejects with a ProviderError, or the signal's reason
 * once it is aborted.
 */
export async function connectSession(
  address: SocketAddress,
  protocol: Pick<Protocol, 'failure'> | null,
  signal: AbortSignal,
): Promise<WebSocket> {
  try {
    return await openSocket(address, signal)
  } catch (error) {
    if (signal.aborted) throw error
    throw failureOf(error as Error, protocol)
  }
}

function failureOf(cause: Error, protocol: Pick<Protocol, 'failure'> | null): ProviderError {
  if (cause instanceof SocketTimeout)
    return new ProviderError('timeout', 'the provider did not open the session in time', { cause })
  if (!(cause instanceof SocketRefused))
    return new ProviderError('connection', 'the connection to the provider failed', { cause })
  const { status, headers, body } = cause
  // A success status without an upgrade is a failure too.
  if (!protocol || status < 400)
    return new ProviderError('invalid_response', 'the provider did not open the session', { status, cause })
  return classifyRefusal(protocol, status, headers, body)
}
