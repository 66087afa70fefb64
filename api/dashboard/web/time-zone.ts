import { useSyncExternalStore } from 'react'

export type ZoneChoice = 'local' | 'utc'

const storageName = 'headgate-time-zone'
const listeners = new Set<() => void>()

/** The time zone in which the pages show times: the browser's, or UTC. */
export function zoneChoice(): ZoneChoice {
  return localStorage.getItem(storageName) === 'utc' ? 'utc' : 'local'
}

export function chooseZone(choice: ZoneChoice): void {
  localStorage.setItem(storageName, choice)
  for (const listener of listeners) listener()
}

/** The name of the browser's time zone: "Europe/Berlin". */
export function localZoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone
}

/** The choice; renders again when it changes, here or in another tab. */
export function useZone(): ZoneChoice {
  return useSyncExternalStore(subscribe, zoneChoice)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  window.addEventListener('storage', listener)
  return () => {
    listeners.delete(listener)
    window.removeEventListener('storage', listener)
  }
}
