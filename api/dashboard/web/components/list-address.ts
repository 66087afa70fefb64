import { useEffect } from 'react'
import { useSearch } from 'wouter'

/** The latest query of each list, by its path: a link back to the list keeps its filters. At most one per page of the navigation. */
const latest = new Map<string, string>()

/** Remembers the query of the list that is open; `lists` are the paths of all lists. */
export function useRememberedList(location: string, lists: readonly string[]): void {
  const search = useSearch()
  useEffect(() => {
    if (lists.includes(location)) latest.set(location, search)
  }, [location, search, lists])
}

/** The address of a list with the filters it had last. */
export function listAddress(path: string): string {
  const search = latest.get(path)
  return search ? `${path}?${search}` : path
}
