import { ActionIcon, Code, Group, ScrollArea, Tabs, Text, Tooltip } from '@mantine/core'
import { IconCheck, IconCopy } from '@tabler/icons-react'
import { useEffect, useState } from 'react'
import { copyText } from './clipboard.ts'

const shownMs = 2_000

/** A button that copies text. `label` names what is copied. */
export function Copy({ value, label }: { value: string; label: string }) {
  const [outcome, setOutcome] = useState<'copied' | 'refused' | null>(null)
  useEffect(() => {
    if (outcome === null) return
    const timer = setTimeout(() => setOutcome(null), shownMs)
    return () => clearTimeout(timer)
  }, [outcome])
  const copy = async () => setOutcome((await copyText(value)) ? 'copied' : 'refused')
  const said = { copied: `${label} copied`, refused: 'Copying is blocked by the browser. Select the text instead.' }
  const words = outcome === null ? `Copy ${label}` : said[outcome]
  return (
    <Tooltip label={words} withArrow>
      <ActionIcon
        variant="subtle"
        color={outcome === 'copied' ? 'teal' : 'gray'}
        onClick={() => void copy()}
        aria-label={words}
      >
        {outcome === 'copied' ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
      </ActionIcon>
    </Tooltip>
  )
}

/** A code block that can be copied and scrolled by keyboard. */
export function CodeBox({ code, label }: { code: string; label: string }) {
  return (
    <Group wrap="nowrap" align="flex-start" gap={4}>
      <ScrollArea
        type="auto"
        style={{ flex: 1, minWidth: 0 }}
        viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': label }}
      >
        {/* Only the area around it scrolls: it is the one that keys reach. */}
        <Code block style={{ whiteSpace: 'pre', overflow: 'visible', minWidth: 'max-content' }}>
          {code}
        </Code>
      </ScrollArea>
      <Copy value={code} label={label} />
    </Group>
  )
}

/** One example in several languages, each with a note; text in backticks in a note is code. */
export function Snippets({ snippets }: { snippets: { language: string; note?: string; code: string }[] }) {
  return (
    <Tabs defaultValue={snippets[0]!.language} keepMounted={false}>
      <Tabs.List>
        {snippets.map(({ language }) => (
          <Tabs.Tab key={language} value={language}>
            {language}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {snippets.map(({ language, note, code }) => (
        <Tabs.Panel key={language} value={language} pt="xs">
          {note && <Note text={note} />}
          <CodeBox code={code} label={`${language} example`} />
        </Tabs.Panel>
      ))}
    </Tabs>
  )
}

function Note({ text }: { text: string }) {
  return (
    <Text size="sm" c="dimmed" mb={4}>
      {text.split('`').map((part, index) => (index % 2 === 1 ? <Code key={part}>{part}</Code> : part))}
    </Text>
  )
}
