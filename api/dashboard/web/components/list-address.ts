import { useEffect } from 'react'
import { useSearch } from 'wouter'

/** Lists of the navigation, and of the organisations that an operator viewed last. */
const maxLists = 100
/** The latest query of each list, by its path: a link back to the list keeps its filters. */
const latest = new Map<string, string>()

/** Remembers the query of the list that is open; `lists` are the paths of all lists. */
export function useRememberedList(location: string, lists: readonly string[]): void {
  const search = useSearch()
  useEffect(() => {
    if (!lists.includes(location)) return
    latest.delete(location)
    latest.set(location, search)
    if (latest.size > maxLists) latest.delete(latest.keys().next().value!)
  }, [location, search, lists])
}

/** The address of a list with the filters it had last. */
export function listAddress(path: string): string {
  const search = latest.get(path)
  return search ? `${path}?${search}` : path
}
