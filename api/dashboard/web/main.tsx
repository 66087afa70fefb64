import '@mantine/core/styles.css'
import '@mantine/notifications/styles.css'
import './style.css'
import { MantineProvider } from '@mantine/core'
import { QueryClientProvider } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { Router } from 'wouter'
import { App } from './app.tsx'
import { Boundary } from './components/boundary.tsx'
import { queryClient } from './query-client.ts'
import { theme } from './theme.ts'

/** How often lost-scripts.js has loaded the page anew. */
const lostTries = 'headgate-lost-scripts'

// Messages that are raised before it is there are shown then. Where it cannot be loaded, the pages do without.
const Notifications = lazy(async () => ({ default: (await import('@mantine/notifications')).Notifications }))

const Nothing = () => null

sessionStorage.removeItem(lostTries)
createRoot(document.getElementById('root')!).render(
  <MantineProvider theme={theme} defaultColorScheme="auto">
    <Boundary frame={Nothing}>
      <Suspense>
        <Notifications position="bottom-right" />
      </Suspense>
    </Boundary>
    <QueryClientProvider client={queryClient}>
      <Router base="/dashboard">
        <App />
      </Router>
    </QueryClientProvider>
  </MantineProvider>,
)
