import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import { navigate } from 'wouter/use-browser-location'
import { ApiError, isOutage } from './api.ts'

const freshMs = 10_000

// Notifies synchronously, so that a button is disabled before the next click is handled and no mutation runs twice.
notifyManager.setScheduler(queueMicrotask)

/** The error codes of an ended session, of our routes and of the accounts’ routes. */
const sessionEnded = ['not_signed_in', 'UNAUTHORIZED']

/** Redirects to the sign-in when the session has ended, and back to the page afterwards. */
function redirectToSignIn(error: Error): void {
  if (!(error instanceof ApiError) || !sessionEnded.includes(error.code)) return
  const here = location.pathname + location.search
  if (here.startsWith('/dashboard/sign-in')) return
  queryClient.clear()
  navigate(`/dashboard/sign-in?next=${encodeURIComponent(here)}`, { replace: true })
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: redirectToSignIn }),
  mutationCache: new MutationCache({ onError: redirectToSignIn }),
  // A gateway in the local network is reachable without internet access, so the browser's online state is ignored.
  defaultOptions: {
    mutations: { networkMode: 'always' },
    queries: {
      networkMode: 'always',
      staleTime: freshMs,
      // Only connection failures and 5xx are retried; a 4xx would be repeated.
      retry: (failures, error) =>
        failures < 2 && (isOutage(error) || !(error instanceof ApiError && error.status < 500)),
    },
  },
})
