import type { Invoice, MediaOutput } from '../kinds/media.ts'
import { ProviderError } from './contract.ts'
import { invalid, link, list } from './fields.ts'

/** What a look at slow work shows, put together from a provider's answer. */

/** More files of one sort than this are not copied. */
export const mostFiles = 16

export const noInvoice: Invoice = { seconds: null, credits: null }

/** Work under way. `done` is its share in percent, if the provider tells; 100 only when it is over. */
export function pending(done: number | null = null): { status: 'pending'; progress: number | null } {
  return { status: 'pending', progress: done === null ? null : Math.min(99, Math.max(0, Math.floor(done))) }
}

/**
 * The report of finished work. What is not in its answer now will not be there at the next look either: then it has failed,
 * with `invalid_response`.
 */
export function completion<Output>(
  read: () => Output,
  invoiceOf: (output: Output) => Invoice = () => noInvoice,
): { status: 'completed'; output: Output; invoice: Invoice } | { status: 'failed'; error: ProviderError } {
  try {
    const output = read()
    return { status: 'completed', output, invoice: invoiceOf(output) }
  } catch (error) {
    if (error instanceof ProviderError) return { status: 'failed', error }
    throw error
  }
}

/** The one video whose address is at a path. Throws a ProviderError `invalid_response` where there is none. */
export function videoAt(json: unknown, path: string, durationS: number | null = null): MediaOutput<'video'> {
  return { files: [{ role: 'video', url: link(json, path) }], durationS }
}

/** The videos of a list, whose entries have their addresses at `field`, '' = are addresses. Throws where there is none. */
export function videosAt(
  json: unknown,
  path: string,
  field: string,
  durationS: number | null = null,
): MediaOutput<'video'> {
  const entries = list(json, path).slice(0, mostFiles)
  if (entries.length === 0) throw invalid(`its \`${path}\` is empty`)
  return { files: entries.map(entry => ({ role: 'video', url: link(entry, field) })), durationS }
}
