import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import { navigate } from 'wouter/use-browser-location'
import { ApiError } from './api.ts'

const freshMs = 10_000

// A button learns that its mutation runs before the next click is handled, however busy the page is: nothing is done twice.
notifyManager.setScheduler(queueMicrotask)

/** What our routes and those of the accounts say of a session that has ended. */
const sessionEnded = ['not_signed_in', 'UNAUTHORIZED']

/** A session that has ended leads to the sign-in, and back to the page afterwards. */
function signInAgain(error: Error): void {
  if (!(error instanceof ApiError) || !sessionEnded.includes(error.code)) return
  const here = location.pathname + location.search
  if (here.startsWith('/dashboard/sign-in')) return
  queryClient.clear()
  navigate(`/dashboard/sign-in?next=${encodeURIComponent(here)}`, { replace: true })
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: signInAgain }),
  mutationCache: new MutationCache({ onError: signInAgain }),
  // A gateway in the same house answers without the internet: what the browser says of the network does not matter.
  defaultOptions: {
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: freshMs,
      // What the server refuses it refuses again; only a broken connection or a 5xx is worth another look.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
})
