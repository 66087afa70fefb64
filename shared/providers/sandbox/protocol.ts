import { type Protocol, ProviderError } from '../contract.ts'

/** The provider of test keys for slow work. Its direct kinds are spoken in OpenAI's dialect, see `upstream.ts`. */
export const sandboxProtocol: Protocol = {
  direct: {},
  queued: {},
  failure: status => new ProviderError('server_error', 'The sandbox failed.', { status }),
}
