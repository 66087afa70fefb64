import { Box, Kbd, ScrollArea, Text, TextInput, UnstyledButton } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { IconSearch } from '@tabler/icons-react'
import { type KeyboardEvent, useId, useState } from 'react'
import { useLocation } from 'wouter'
import type { Me } from '../../wire/person.ts'
import { OpenModal } from '../components/dialogs.tsx'
import { typingMs } from '../components/filters.tsx'
import type { Place } from '../session.tsx'
import { type PaletteItem, useOperatorItems, usePaletteItems } from './palette-items.ts'

const maxHeight = 360

/** The search of the palette, in a dialog. */
export default function PaletteSearch({
  me,
  place,
  onClose,
}: {
  me: Me
  /** Null: all organisations, for operators. */
  place: Place | null
  onClose: () => void
}) {
  if (place === null) return <OperatorSearch onClose={onClose} />
  return <PlaceSearch me={me} place={place} onClose={onClose} />
}

function PlaceSearch({ me, place, onClose }: { me: Me; place: Place; onClose: () => void }) {
  const [text, setText] = useState('')
  const [settled] = useDebouncedValue(text, typingMs)
  const items = usePaletteItems(me, place, settled)
  const words = { label: 'Search pages, API keys, models and IDs', placeholder: 'Page, API key, model or any ID' }
  return <Search {...{ text, setText, settled, items, words, onClose }} />
}

function OperatorSearch({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const [settled] = useDebouncedValue(text, typingMs)
  const items = useOperatorItems(settled)
  const words = {
    label: 'Search all organisations',
    placeholder: 'Any ID, email address, organisation, model or provider',
  }
  return <Search {...{ text, setText, settled, items, words, onClose }} />
}

function Search({
  text,
  setText,
  settled,
  items,
  words,
  onClose,
}: {
  text: string
  setText: (text: string) => void
  /** The text that the items are of. */
  settled: string
  items: PaletteItem[]
  words: { label: string; placeholder: string }
  onClose: () => void
}) {
  const listId = useId()
  const [, navigate] = useLocation()
  const [current, setCurrent] = useState(0)
  const selected = Math.min(current, items.length - 1)
  const open = ({ href }: PaletteItem) => {
    onClose()
    navigate(href)
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined && items.length > 0) {
      event.preventDefault()
      setCurrent((selected + step + items.length) % items.length)
    } else if (event.key === 'Enter' && items[selected] && text === settled) {
      event.preventDefault()
      open(items[selected])
    }
  }
  return (
    <OpenModal onClose={onClose} title="Search" size="lg" yOffset="10vh">
      <TextInput
        data-autofocus
        role="combobox"
        aria-label={words.label}
        aria-expanded
        aria-autocomplete="list"
        aria-controls={listId}
        aria-activedescendant={items.length > 0 ? `${listId}-${selected}` : undefined}
        placeholder={words.placeholder}
        leftSection={<IconSearch size={16} aria-hidden />}
        value={text}
        maxLength={200}
        onChange={event => {
          setText(event.currentTarget.value)
          setCurrent(0)
        }}
        onKeyDown={onKeyDown}
      />
      <ScrollArea.Autosize mah={maxHeight} mt="sm">
        <div role="listbox" id={listId} aria-label="Results">
          {items.map((item, i) => (
            <Result
              key={`${item.kind} ${item.href}`}
              id={`${listId}-${i}`}
              item={item}
              isSelected={i === selected}
              onHover={() => setCurrent(i)}
              onOpen={() => open(item)}
            />
          ))}
        </div>
        {items.length === 0 && (
          <Text size="sm" c="dimmed" py="sm" ta="center" role="status">
            No matches
          </Text>
        )}
      </ScrollArea.Autosize>
      <Text size="xs" c="dimmed" mt="sm">
        <Kbd size="xs">↑</Kbd> <Kbd size="xs">↓</Kbd> to choose, <Kbd size="xs">Enter</Kbd> to open
      </Text>
    </OpenModal>
  )
}

function Result({
  id,
  item: { kind, label, note },
  isSelected,
  onHover,
  onOpen,
}: {
  id: string
  item: PaletteItem
  isSelected: boolean
  onHover: () => void
  onOpen: () => void
}) {
  return (
    <UnstyledButton
      id={id}
      role="option"
      aria-selected={isSelected}
      tabIndex={-1}
      w="100%"
      px="sm"
      py={6}
      bg={isSelected ? 'var(--mantine-color-default-hover)' : undefined}
      style={{ borderRadius: 'var(--mantine-radius-sm)', overflowWrap: 'anywhere' }}
      onMouseMove={onHover}
      onClick={onOpen}
    >
      <Box component="span" fz="sm" fw={500}>
        {label}
      </Box>{' '}
      <Text span size="xs" c="dimmed">
        {[kind, note].filter(Boolean).join(' · ')}
      </Text>
    </UnstyledButton>
  )
}
