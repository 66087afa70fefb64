import { isObject } from '../../../base/is-object.ts'
import type { SearchResult } from '../../../kinds/chat.ts'

/** A place of an answer's text, in UTF-16 units, and the page that it cites. */
export type Citation = { start: number; end: number; url: string; title: string }

/** More are left out: an answer of a few thousand tokens has no more. */
export const maxCitations = 500

/** The pages that a chat answer cites: its valid annotations of the type `url_citation`, which providers hand on unchecked. */
export function citationsOf(annotations: unknown): Citation[] {
  if (!Array.isArray(annotations)) return []
  return annotations.slice(0, maxCitations).flatMap((annotation: unknown) => {
    const cited = isObject(annotation) && annotation.type === 'url_citation' ? annotation.url_citation : null
    if (!isObject(cited) || typeof cited.url !== 'string') return []
    const { url, title, start_index, end_index } = cited
    const start = placeOf(start_index)
    return [{ start, end: Math.max(start, placeOf(end_index)), url, title: typeof title === 'string' ? title : '' }]
  })
}

/** OpenRouter leaves the places out for some engines, and states 0. */
function placeOf(index: unknown): number {
  return Number.isSafeInteger(index) && (index as number) > 0 ? (index as number) : 0
}

/** What of a page is quoted: Perplexity's answers have it beside the citations. '' = unknown. */
export function snippetsOf(results: unknown): Map<string, string> {
  if (!Array.isArray(results)) return new Map()
  return new Map(
    (results as (Partial<SearchResult> | null)[])
      .slice(0, maxCitations)
      .flatMap(one =>
        typeof one?.url === 'string' && typeof one.snippet === 'string' ? [[one.url, one.snippet]] : [],
      ),
  )
}
