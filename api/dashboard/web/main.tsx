import '@mantine/core/styles.css'
import '@mantine/notifications/styles.css'
import './style.css'
import { MantineProvider } from '@mantine/core'
import { QueryClientProvider } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { Router } from 'wouter'
import { App } from './app.tsx'
import { queryClient } from './query-client.ts'
import { theme } from './theme.ts'

// Messages that are raised before it is there are shown then.
const Notifications = lazy(async () => ({ default: (await import('@mantine/notifications')).Notifications }))

createRoot(document.getElementById('root')!).render(
  <MantineProvider theme={theme} defaultColorScheme="auto">
    <Suspense>
      <Notifications position="bottom-right" />
    </Suspense>
    <QueryClientProvider client={queryClient}>
      <Router base="/dashboard">
        <App />
      </Router>
    </QueryClientProvider>
  </MantineProvider>,
)
