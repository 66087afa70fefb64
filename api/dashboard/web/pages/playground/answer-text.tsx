import { Button, Text } from '@mantine/core'
import { useLocalStorage } from '@mantine/hooks'
import { lazy, Suspense } from 'react'

const Markdown = lazy(() => import('../../components/markdown.tsx'))

/** Whether answers are shown as they were received, remembered in the browser. */
function usePlain() {
  return useLocalStorage({ key: 'headgate-plain-answers', defaultValue: false, getInitialValueInEffect: false })
}

/** The text of an answer: as Markdown, or plain. */
export function AnswerText({ text }: { text: string }) {
  const [isPlain] = usePlain()
  const plain = (
    <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      {text}
    </Text>
  )
  if (isPlain) return plain
  return (
    <Suspense fallback={plain}>
      <Markdown>{text}</Markdown>
    </Suspense>
  )
}

/** Switches all answers between Markdown and plain text. */
export function PlainSwitch() {
  const [isPlain, setPlain] = usePlain()
  return (
    <Button size="compact-xs" variant="subtle" color="gray" aria-pressed={isPlain} onClick={() => setPlain(!isPlain)}>
      Plain text
    </Button>
  )
}
