import { Page } from '../components/page.tsx'

export default function Playground() {
  return <Page title="Playground">{null}</Page>
}
