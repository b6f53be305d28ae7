// Asks a server over TLS keep-alive connections, as fast as it answers or at a constant rate, and prints what it saw as
// JSON: answers, those with another status than is right, seconds; its own CPU seconds; latencies in microseconds; of those that took longer
// than -slow when each was due, in seconds since the epoch, and how many it took.
//
// If -body is a folder, each request posts the next one of its files.
//
// At a constant rate a latency counts from when the request was due, so that a server that pauses is not asked less.
package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

type seen struct {
	latencies []time.Duration
	bad       int
	slow      [][2]float64
}

type figures struct {
	Answers int                `json:"answers"`
	Bad     int                `json:"bad"`
	Seconds float64            `json:"seconds"`
	CPU     float64            `json:"cpu"`
	Latency map[string]float64 `json:"latency"`
	Slow    [][2]float64       `json:"slow"`
}

func main() {
	address := flag.String("address", "", "host:port")
	path := flag.String("path", "", "where to post")
	authority := flag.String("ca", "", "file with the certificates to trust")
	certificate := flag.String("certificate", "", "file with a certificate to show, if any")
	key := flag.String("key", "", "its key")
	bodyFile := flag.String("body", "", "file with what to post, or a folder of such files")
	right := flag.Int("status", http.StatusOK, "the right status")
	connections := flag.Int("connections", 16, "how many")
	duration := flag.Duration("duration", time.Second, "how long")
	rate := flag.Float64("rate", 0, "requests a second over all connections; 0: as fast as they are answered")
	slow := flag.Duration("slow", time.Hour, "how long a request takes that is told of one by one")
	flag.Parse()
	settings := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS13}
	settings.RootCAs.AppendCertsFromPEM(read(*authority))
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		must(err)
		settings.Certificates = []tls.Certificate{pair}
	}
	form := "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	var requests [][]byte
	for _, body := range bodies(*bodyFile) {
		requests = append(requests, append([]byte(fmt.Sprintf(form, *path, len(body))), body...))
	}

	all := make([]seen, *connections)
	var ready, done sync.WaitGroup
	start := make(chan time.Time)
	for number := range all {
		connection, err := tls.Dial("tcp", *address, settings)
		must(err)
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			reader := bufio.NewReaderSize(connection, 1<<16)
			ask(connection, reader, requests[0]) // so that the connection is there and warm
			ready.Done()
			begin := <-start
			pause := time.Duration(0)
			due := begin
			if *rate > 0 {
				pause = time.Duration(float64(*connections) / *rate * float64(time.Second))
				due = begin.Add(pause * time.Duration(number) / time.Duration(*connections))
			}
			for turn := number; time.Since(begin) < *duration; turn++ {
				if pause > 0 {
					time.Sleep(time.Until(due))
				} else {
					due = time.Now()
				}
				if ask(connection, reader, requests[turn%len(requests)]) != *right {
					all[number].bad++
				}
				took := time.Since(due)
				all[number].latencies = append(all[number].latencies, took)
				if took > *slow {
					all[number].slow = append(all[number].slow, [2]float64{float64(due.UnixNano()) / 1e9, took.Seconds()})
				}
				due = due.Add(pause)
			}
		}()
	}
	ready.Wait()
	cpu := used()
	begin := time.Now()
	for range all {
		start <- begin
	}
	done.Wait()
	found := summary(all, time.Since(begin))
	found.CPU = used() - cpu
	must(json.NewEncoder(os.Stdout).Encode(found))
}

func ask(connection io.Writer, reader *bufio.Reader, request []byte) int {
	_, err := connection.Write(request)
	must(err)
	response, err := http.ReadResponse(reader, nil)
	must(err)
	_, err = io.Copy(io.Discard, response.Body)
	must(err)
	must(response.Body.Close())
	return response.StatusCode
}

func summary(all []seen, took time.Duration) figures {
	found := figures{Seconds: took.Seconds(), Latency: map[string]float64{}, Slow: [][2]float64{}}
	var latencies []time.Duration
	for _, one := range all {
		latencies = append(latencies, one.latencies...)
		found.Bad += one.bad
		found.Slow = append(found.Slow, one.slow...)
	}
	slices.Sort(latencies)
	found.Answers = len(latencies)
	for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
		place := min(int(share*float64(len(latencies))), len(latencies)-1)
		found.Latency[name] = float64(latencies[place].Nanoseconds()) / 1000
	}
	return found
}

// used returns the CPU seconds that this program has used.
func used() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func bodies(name string) [][]byte {
	info, err := os.Stat(name)
	must(err)
	if !info.IsDir() {
		return [][]byte{read(name)}
	}
	files, err := os.ReadDir(name)
	must(err)
	var found [][]byte
	for _, file := range files {
		found = append(found, read(filepath.Join(name, file.Name())))
	}
	return found
}

func read(file string) []byte {
	content, err := os.ReadFile(file)
	must(err)
	return content
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
