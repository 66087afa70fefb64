import { unsupported } from '../../../kinds/media.ts'
import type { ProviderRequest, SyncCall } from '../../contract.ts'

export type ImageCall = SyncCall<'image'>

/** A provider's request and response format for images. */
export type ImageDialect = {
  /** Our fields by theirs, for errors that name a field. */
  fields: Readonly<Record<string, string>>
  /** Throws a GatewayError 400 naming the field that cannot be expressed. */
  request(call: ImageCall): Promise<Pick<ProviderRequest, 'path' | 'json' | 'parts'>>
  /** The names of its events, where it supports previews. */
  events?(call: ImageCall): { preview: string; last: string }
  /** The `usage` of a response, under chat's names. */
  usage(answer: unknown): unknown
}

/** Throws 400 for the first of these fields that is set and cannot be expressed. */
export function refuseFields({ target: { model, provider } }: ImageCall, fields: Record<string, boolean>): void {
  for (const [param, isUsed] of Object.entries(fields))
    if (isUsed) throw unsupported(model, param, `at ${provider.name} does not take this \`${param}\``)
}
