import { MutationCache, notifyManager, QueryCache, QueryClient } from '@tanstack/react-query'
import { navigate } from 'wouter/use-browser-location'
import { ApiError, isOutage, isSessionEnd } from './api.ts'

const freshMs = 10_000

// Notifies synchronously, so that a button is disabled before the next click is handled and no mutation runs twice.
notifyManager.setScheduler(queueMicrotask)

/** The form that was last written in, until a change was made: what it holds would be lost with its page. */
let written: Element | null = null
document.addEventListener('input', ({ target }) => {
  if (target instanceof Element) written = target.closest('form')
})

/** Redirects to the sign-in when the session has ended, and back to the page afterwards. A form with input stays, and says so itself. */
function redirectToSignIn(error: Error): void {
  if (!isSessionEnd(error) || written?.isConnected) return
  const here = location.pathname + location.search
  if (here.startsWith('/dashboard/sign-in')) return
  queryClient.clear()
  navigate(`/dashboard/sign-in?next=${encodeURIComponent(here)}`, { replace: true })
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: redirectToSignIn }),
  mutationCache: new MutationCache({
    onError: redirectToSignIn,
    onSuccess: () => {
      written = null
    },
  }),
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
