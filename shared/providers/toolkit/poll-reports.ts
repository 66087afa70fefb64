import type { Invoice, MediaOutput } from '../../kinds/media.ts'
import { ProviderError } from '../provider-error.ts'
import { invalidResponse, readLink, readList } from './json-fields.ts'

/** Builds poll reports from a provider's response. */

/** Maximum number of files of one kind that are copied. */
export const maxFiles = 16

export const noInvoice: Invoice = { seconds: null, credits: null }

/** Report of pending work. `done` is its progress in percent, if the provider reports it; 100 only on completion. */
export function pendingReport(done: number | null = null): { status: 'pending'; progress: number | null } {
  return { status: 'pending', progress: done === null ? null : Math.min(99, Math.max(0, Math.floor(done))) }
}

/**
 * Report of completed work. Data missing from its response will be missing from the next poll too: the work has then
 * failed with `invalid_response`.
 */
export function completedReport<Output>(
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

/** The one video whose URL is at a path. Throws a ProviderError `invalid_response` if there is none. */
export function videoAt(json: unknown, path: string, durationS: number | null = null): MediaOutput<'video'> {
  return { files: [{ role: 'video', url: readLink(json, path) }], durationS }
}

/** The videos of a list; the entries have their URLs at `field`, '' = are URLs. Throws if there is none. */
export function videosAt(
  json: unknown,
  path: string,
  field: string,
  durationS: number | null = null,
): MediaOutput<'video'> {
  const entries = readList(json, path).slice(0, maxFiles)
  if (entries.length === 0) throw invalidResponse(`its \`${path}\` is empty`)
  return { files: entries.map(entry => ({ role: 'video', url: readLink(entry, field) })), durationS }
}
