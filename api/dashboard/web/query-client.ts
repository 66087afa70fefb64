import { MutationCache, QueryCache, QueryClient } from '@tanstack/react-query'
import { navigate } from 'wouter/use-browser-location'
import { ApiError } from './api.ts'

const freshMs = 10_000

/** A session that has ended leads to the sign-in, and back to the page afterwards. */
function signInAgain(error: Error): void {
  if (!(error instanceof ApiError) || error.code !== 'not_signed_in') return
  const here = location.pathname + location.search
  if (here.startsWith('/dashboard/sign-in')) return
  queryClient.clear()
  navigate(`/dashboard/sign-in?next=${encodeURIComponent(here)}`, { replace: true })
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({ onError: signInAgain }),
  mutationCache: new MutationCache({ onError: signInAgain }),
  defaultOptions: {
    queries: {
      staleTime: freshMs,
      // What the server refuses it refuses again; only a broken connection or a 5xx is worth another look.
      retry: (failures, error) => failures < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
})
