import { ActionIcon, Tooltip } from '@mantine/core'
import { useHotkeys } from '@mantine/hooks'
import { IconSearch } from '@tabler/icons-react'
import { lazy, Suspense, useState } from 'react'
import type { Me } from '../../wire/person.ts'
import type { Place } from '../session.tsx'

const PaletteSearch = lazy(() => import('./palette-search.tsx'))

/**
 * A button, and ⌘K or Ctrl-K, that opens a search over pages, API keys, models and ids; without a place that of operators, over all
 * organisations.
 */
export function Palette({ me, place }: { me: Me; place: Place | null }) {
  const [isOpen, setOpen] = useState(false)
  useHotkeys([['mod+K', () => setOpen(true)]], [])
  return (
    <>
      <Tooltip label="Search (Ctrl K or ⌘ K)" withArrow>
        <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Search" onClick={() => setOpen(true)}>
          <IconSearch size={18} aria-hidden />
        </ActionIcon>
      </Tooltip>
      {isOpen && (
        <Suspense>
          <PaletteSearch me={me} place={place} onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  )
}
