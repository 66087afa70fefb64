import { unsupported } from '../../kinds/media.ts'
import type { InstantCall, ProviderRequest } from '../contract.ts'

export type ImageCall = InstantCall<'image'>

/** How a provider wants to be asked for images. */
export type ImageDialect = {
  /** Our fields by theirs, for faults that are told by a field. */
  fields: Readonly<Record<string, string>>
  /** Throws a GatewayError 400 naming the field that cannot be expressed. */
  request(call: ImageCall): Promise<Pick<ProviderRequest, 'path' | 'json' | 'parts'>>
  /** The names of its events, where it gives previews. */
  events?(call: ImageCall): { preview: string; last: string }
  /** The `usage` of an answer, with the names that chat has for its counts. */
  usage(answer: unknown): unknown
}

/** Throws 400 for the first of these fields that is used and cannot be expressed. */
export function refuse({ target: { model, provider } }: ImageCall, fields: Record<string, boolean>): void {
  for (const [param, isUsed] of Object.entries(fields))
    if (isUsed) throw unsupported(model, param, `at ${provider.name} does not take this \`${param}\``)
}
